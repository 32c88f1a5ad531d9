"""Which step helps a stack of which a part is missing or wrong."""

from __future__ import annotations

from sluice_cli.account.object import ways_out
from sluice_cli.account.steps import BACKFILL
from sluice_cli.terminal.step import Step

ANNOUNCED = Step("adopt-bucket")
RULES_PUSHED = Step("config push", "tables.yaml")


def files_back() -> str:
    """What brings back what a lifecycle rule of silver removed."""
    restored = f"{Step('table accept')} restores a lost hoodie.properties, {Step('rebuild table')} lost rows"
    return f"Take the rule out of the bucket. {restored}"


def anew() -> str:
    """What puts a local stack right that lacks a part."""
    return f"End this stack with {Step('local down', '--yes')}, and start another with {Step('local up')}"


def restored_ledger() -> str:
    """What brings a deployed stack's ledger back."""
    return (
        "Restore it under the same name from DynamoDB's system backup of the deleted table, with the stack's stream "
        f"and settings; then pause every lane, {Step('rebuild ledger')}, and {Step('resume')}"
    )


def entries_decided() -> str:
    """What to do with entries in quarantine."""
    return f"Nothing retries these by itself: {Step('quarantine list')} shows which and why, {ways_out()}"


def notices_again() -> str:
    """What brings back notices that admit could not take."""
    return f"Check the log of admit, then run {Step('dlq redrive', 'notices')}"


def space_made() -> str:
    """What helps a local stack whose disk is full."""
    return f"Free some space there, then {BACKFILL} and {Step('wait')}"
