"""How MiniStack reports a failed function: as AWS does, so that state machines tell errors by their class."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.config import Config
from emulation.aws import client_of

from sluice_local.emulators.emulator import ACCOUNT, REGION, Emulator
from sluice_local.emulators.ministack import start_ministack

pytestmark = pytest.mark.long

ROLE = f"arn:aws:iam::{ACCOUNT}:role/any"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:failing"
CODE = """
import pathlib


class Busy(Exception):
    pass


class Refused(Exception):
    pass


def handle(event, context):
    print("called as", context.aws_request_id)
    tried = pathlib.Path(event["tried"])
    if tried.exists():
        raise Refused('said "no":\\nfor good')
    tried.touch()
    raise Busy("ask again")
"""
DEFINITION = {
    "StartAt": "Ask",
    "States": {
        "Ask": {
            "Type": "Task",
            "Resource": FUNCTION,
            "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 1}],
            "Catch": [{"ErrorEquals": ["Refused"], "Next": "Caught"}],
            "End": True,
        },
        "Caught": {"Type": "Succeed"},
    },
}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """MiniStack with a function that fails."""
    started = start_ministack(tmp_path_factory.mktemp("emulator"), port=None, environment=os.environ)
    try:
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as file:
            file.writestr("failing.py", CODE)
        about = {"Runtime": "python3.11", "Role": ROLE, "Handler": "failing.handle", "Timeout": 30}
        code = {"ZipFile": package.getvalue()}
        client_of(started, "lambda").create_function(FunctionName="failing", Code=code, **about)
        yield started
    finally:
        started.stop()


def test_an_error_of_a_function_has_its_class_its_message_and_its_stack(emulator: Emulator, tmp_path: Path) -> None:
    (tmp_path / "tried").touch()
    payload = json.dumps({"tried": str(tmp_path / "tried")})
    answer = client_of(emulator, "lambda").invoke(FunctionName="failing", Payload=payload, LogType="Tail")
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    error = json.load(answer["Payload"])
    (frame,) = error.pop("stackTrace")
    log = base64.b64decode(answer["LogResult"]).decode()
    assert f"called as {error.pop('requestId')}\n" in log and "failing.Refused: said" in log
    assert error == {"errorType": "Refused", "errorMessage": 'said "no":\nfor good'}
    place, line = frame.splitlines()
    assert place.startswith('  File "') and place.endswith(", in handle") and "failing.py" in place
    assert line == """    raise Refused('said "no":\\nfor good')"""


def test_a_state_machine_retries_and_catches_errors_by_their_class(emulator: Emulator, tmp_path: Path) -> None:
    # StartSyncExecution has a host of its own on AWS.
    machines = client_of(emulator, "stepfunctions", config=Config(inject_host_prefix=False))
    definition = json.dumps(DEFINITION)
    machine = machines.create_state_machine(name="asking", definition=definition, roleArn=ROLE, type="EXPRESS")
    given = json.dumps({"tried": str(tmp_path / "tried")})
    ended = machines.start_sync_execution(stateMachineArn=machine["stateMachineArn"], input=given)
    assert ended["status"] == "SUCCEEDED", ended
    caught = json.loads(ended["output"])
    assert caught["Error"] == "Refused"
    assert json.loads(caught["Cause"])["errorMessage"] == 'said "no":\nfor good'
