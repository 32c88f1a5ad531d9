"""A start of what waits that the caller can't cause is said in words, with the error itself for `--debug`."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from sluice_cli.terminal.run import debugging
from sluice_cli.terminal.stack import supervise_now


def target(code):
    def invoke(**_):
        raise ClientError({"Error": {"Code": code, "Message": "arn:aws:lambda:eu-central-1:1:function:s"}}, "Invoke")

    return SimpleNamespace(
        outputs={"SuperviseFunction": "s-supervise"}, client=lambda _: SimpleNamespace(invoke=invoke)
    )


@pytest.mark.parametrize(
    ("code", "why"), [("ResourceNotFoundException", "is gone"), ("AccessDeniedException", "may not be invoked by you")]
)
def test_a_function_that_cannot_be_invoked_is_named_with_the_reason(capsys, code, why):
    assert supervise_now(target(code)) is False
    said = f"The function s-supervise {why}: the schedule starts what waits, within minutes\n"
    assert capsys.readouterr().err == said
    set_before = debugging.set(True)
    assert supervise_now(target(code)) is False
    debugging.reset(set_before)
    assert "An error occurred" in capsys.readouterr().err


def test_any_other_error_of_the_invocation_is_raised():
    with pytest.raises(ClientError):
        supervise_now(target("ServiceException"))
