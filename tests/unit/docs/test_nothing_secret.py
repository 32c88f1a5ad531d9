"""Nothing in the repository looks like a key or a password, or names an account except the placeholders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOT_OURS = set(
    ".git .aws-sam .sluice .pytest_cache .hypothesis __pycache__ build dist spark-warehouse results hudi_tables".split()
)
LARGEST = 200_000  # what is larger is recorded data
PLACEHOLDERS = {
    "123456789012": "AWS's documentation, its samples of events",
    "111122223333": "AWS's documentation, its samples of policies",
    "000000000000": "the account of both emulators",
}
# Where twelve digits are an account: in an ARN, in the name of a bucket of the stack's, in a member of an event or an
# argument of that name.
ACCOUNTS = re.compile(
    rb"arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:(\d{12}):|-(\d{12})-[a-z]{2}-[a-z]+-\d|(?i:account(?:_?id)?)[\"']?\s*[:=]\s*[\"'](\d{12})[\"']"
)
SECRETS = {
    "access key": re.compile(rb"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"),
    "private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "token of a forge or a chat": re.compile(
        rb"\b(?:gh[opsu]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20}|xox[abpr]-[A-Za-z0-9-]{10,}|pypi-[A-Za-z0-9_-]{50,})"
    ),
    "signed request": re.compile(rb"X-Amz-Signature=[0-9a-f]{64}|X-Amz-Security-Token=[A-Za-z0-9%/+]{40,}"),
    "password in a URL": re.compile(rb"://[^/\s:@\"'{}<>$]{1,60}:[^/\s:@\"'{}<>$]{1,60}@[a-z0-9]"),
}
# A value that something named as a secret is given.
GIVEN = re.compile(
    rb"(?:secret_access_key|SECRET_KEY|secretKey|[Pp]assword|PASSWORD|passwd|auth_token|AUTH_TOKEN)[\"']?\s*[:=]\s*[\"']([A-Za-z0-9/+_=-]+)[\"']"
)
MADE_UP = {
    b"test": "the emulators' documented key",
    b"x": "tests without an AWS",
    b"secret": "tests",
    b"my-AWS_SECRET_ACCESS_KEY": "a test that it isn't used",
    b"dbz": "what Debezium's own examples have, in the configuration of a source that no longer is",
    b"changeit": "what every Java's trust store has",
}


def texts() -> Iterator[tuple[str, bytes]]:
    """Every file of ours, by its path."""
    for folder, folders, files in os.walk(ROOT):
        others = {name for name in folders if name.startswith(".venv") or name.endswith(".egg-info")}
        folders[:] = [name for name in folders if name not in NOT_OURS | others]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and path.stat().st_size <= LARGEST and path != Path(__file__).resolve():
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def accounts(content: bytes) -> set[str]:
    return {number.decode() for match in ACCOUNTS.findall(content) for number in match if number}


def kinds(content: bytes) -> list[str]:
    written = ["secret that is written out"] if set(GIVEN.findall(content)) - set(MADE_UP) else []
    return written + [kind for kind, pattern in SECRETS.items() if pattern.search(content)]


def test_nothing_looks_like_a_secret_and_no_account_is_named_but_the_placeholders() -> None:
    wrong, read = [], 0
    for path, content in texts():
        read += 1
        wrong += [(path, kind) for kind in (*kinds(content), *(accounts(content) - set(PLACEHOLDERS)))]
    assert wrong == [] and read > 300


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "-----BEGIN " + "RSA PRIVATE KEY-----",
        "ghp_" + "a" * 36,
        "jdbc:mysql://root:" + "hunter2@db",
        'aws_secret_access_key = "' + 'wJalrXUtnFEMI"',
        "https://x/?X-Amz-Signature=" + "0a" * 32,
        '"password": "' + 'hunter2"',
    ],
)
def test_what_looks_like_a_secret_is_found(text: str) -> None:
    assert kinds(text.encode())
