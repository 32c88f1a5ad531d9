"""Who decides: for the records of what was decided."""

from __future__ import annotations

import getpass
import socket

from sluice_cli.target import LOCAL, Target


def operator_of(target: Target) -> str:
    """AWS's name for the caller, or on the local stack, which knows no callers, the user of this machine."""
    if target.kind == LOCAL:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    return str(target.client("sts").get_caller_identity()["Arn"])
