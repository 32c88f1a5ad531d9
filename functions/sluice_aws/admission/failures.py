"""Names the failures that make admit ask for a message again."""

from __future__ import annotations

from botocore.exceptions import ClientError

from sluice.admission.sqs_event import Unfinished

DEADLINE = "deadline"
MAX_REASON = 500  # characters; an error may quote a whole request


def unfinished(error: BaseException | None) -> Unfinished:
    """The failure as a code and a reason; without an error, the invocation's time was over.

    The code is that of AWS or of a SluiceError, else the name of the error's class.
    """
    if error is None:
        return Unfinished(DEADLINE, "the invocation's time was over")
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", "ClientError"))
    else:
        code = str(getattr(error, "code", type(error).__name__))
    return Unfinished(code, str(error)[:MAX_REASON])
