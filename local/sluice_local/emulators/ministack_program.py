"""The program of MiniStack's process: MiniStack, with what an earlier process kept, and errors of functions as on AWS.

MiniStack can save the state of its services at its end (PERSIST_STATE), but not the objects of buckets and their
versions, unless it writes each to disk when it is put. This program saves the objects with the rest, and only where
`ASKED` is in the folder of environment variable STATE_DIR. `sluice_local.emulators.ministack` starts it.

MiniStack names every error of a function Runtime.HandlerError (seen in 1.5.33): its worker hands over the exception's
message without the class, by which state machines retry and catch. With `name_errors` it reports what Lambda reports.

It parses and checks the condition of a query again for each item of the partition, 23 us an item of a backlog; with
`parse_once` 6 us. A transaction copies each of its items several times; with `copy_plainly` in a third of the time.

It lists the versions of objects without `encoding-type=url`, which clients ask for: one key with a control character,
which XML can't hold, and no client reads a listing of its bucket. With `encode_keys` it lists them as S3 does.
"""

from __future__ import annotations

import copy
import json
import os
import pickle  # nosec B403
import sys
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ASKED, COMPLETE = "asked", "complete"  # files: keep everything at the end; everything was kept
OBJECTS = "objects.pickle"
_MESSAGE = '"error": str(e), "trace": '  # in the text of MiniStack's worker
_REPORT = (
    '"error": json.dumps({"errorType": type(e).__name__, "errorMessage": str(e), "requestId": context.aws_request_id, '
    '"stackTrace": traceback.format_tb(e.__traceback__)[1:]}), "trace": '  # the first frame is the worker's
)
_EXPRESSIONS = 1_024  # parsed ones that are kept
_BEGIN = '{"errorType": '
_PLAIN = {
    *(("builtins", name) for name in ("set", "frozenset", "bytearray")),
    *(("datetime", name) for name in ("datetime", "timezone", "timedelta")),
    *(("collections", name) for name in ("OrderedDict", "defaultdict", "deque")),
}
_KEYS = {"Key", "Prefix", "Delimiter", "KeyMarker", "NextKeyMarker"}  # of a listing: what S3 encodes


def main() -> None:
    """Run MiniStack until it is asked to end. Its interpreter for functions is the first argument."""
    sys.executable = sys.argv.pop(1)
    from ministack import app
    from ministack.core import lambda_runtime
    from ministack.services import dynamodb, lambda_svc, s3

    name_errors(lambda_runtime, lambda_svc)
    parse_once(dynamodb)
    copy_plainly(dynamodb)
    encode_keys(s3)
    folder = Path(os.environ["STATE_DIR"])
    save_services = app.save_all

    def save_all(services: Any) -> None:
        if (folder / ASKED).exists():
            (folder / COMPLETE).unlink(missing_ok=True)
            save_services(services)
            _save(s3, folder)

    app.save_all = save_all
    if (folder / COMPLETE).exists():
        restore(s3, folder)
    app.main()


def name_errors(runtime: Any, functions: Any) -> None:
    """Report the class, message and stack of a function's exception: the worker sends them packed in its message."""
    runtime._PYTHON_WORKER_SCRIPT = runtime._PYTHON_WORKER_SCRIPT.replace(_MESSAGE, _REPORT)
    execute = functions._execute_function_warm

    def execute_and_name(*given: Any) -> Any:
        result = execute(*given)
        if result.get("error") and result["body"].get("errorMessage", "").startswith(_BEGIN):
            result["body"] = json.loads(result["body"]["errorMessage"])
        return result

    functions._execute_function_warm = execute_and_name


def parse_once(dynamodb: Any) -> None:
    """Check and parse each expression at its first use. MiniStack only reads what was parsed."""
    for name in ("_tokenize", "_condition_syntax_error"):
        setattr(dynamodb, name, lru_cache(_EXPRESSIONS)(getattr(dynamodb, name)))


def copy_plainly(dynamodb: Any) -> None:
    """Copy items, which are plain JSON, without the account of copied objects that `copy.deepcopy` keeps."""
    dynamodb.copy = SimpleNamespace(deepcopy=plain_copy)


def plain_copy(value: Any) -> Any:
    """A deep copy of dicts, lists and scalar values. Anything else is left to `copy.deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {name: plain_copy(inner) for name, inner in value.items()}
    if kind is list:
        return [plain_copy(inner) for inner in value]
    return value if kind is str else copy.deepcopy(value)


def encode_keys(s3: Any) -> None:
    """Encode the keys in a listing of versions for a client that asks for it."""
    list_versions, to_bytes = s3._list_object_versions, s3._xml_body
    url_encoded: ContextVar[bool] = ContextVar("asked", default=False)

    def list_encoded(bucket: str, query: Any) -> Any:
        before = url_encoded.set(s3._qp(query, "encoding-type", "") == "url")
        try:
            return list_versions(bucket, query)
        finally:
            url_encoded.reset(before)

    def encoded_bytes(root: Any) -> Any:
        if url_encoded.get() and root.tag == "ListVersionsResult":
            for element in root.iter():
                if element.tag in _KEYS and element.text:
                    element.text = s3._url_encode(element.text)
            s3.SubElement(root, "EncodingType").text = "url"
        return to_bytes(root)

    s3._list_object_versions, s3._xml_body = list_encoded, encoded_bytes


def _save(s3: Any, folder: Path) -> None:
    folder.chmod(0o700)
    with (folder / OBJECTS).open("wb") as file:
        pickle.dump({name: dict(store._data) for name, store in _stores(s3).items()}, file, protocol=5)
    (folder / ASKED).rename(folder / COMPLETE)


def restore(s3: Any, folder: Path) -> None:
    """Give S3 what was kept. Raises UnpicklingError for anything but plain values."""
    with (folder / OBJECTS).open("rb") as file:
        plain = _Plain(file).load()
    for name, store in _stores(s3).items():
        store._data.update(plain.get(name, {}))


class _Plain(pickle.Unpickler):  # nosec B301
    """Reads plain values. The file may come with a clone of somebody else's folder: it can't name code to be called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"what was kept holds a {module}.{name}, which no bucket has")


def _stores(s3: Any) -> dict[str, Any]:
    """Everything that S3 keeps for an account: buckets with their objects, versions, tags and uploads."""
    from ministack.core.responses import AccountScopedDict

    return {name: value for name, value in vars(s3).items() if isinstance(value, AccountScopedDict)}


if __name__ == "__main__":
    main()
