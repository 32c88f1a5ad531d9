"""`sluice put`: copies files into the bronze bucket, like any S3 client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sluice.errors import UsageError
from sluice_cli.terminal.output import Json, Stack, chosen_target, counted, human_bytes, print_json, stderr_console

UPLOADS_AT_ONCE = 8
LARGEST_PUT = 5 * 1024**3  # bytes; the limit of one PutObject
MAX_KEY_BYTES = 1024  # the limit of S3


@dataclass(frozen=True)
class Upload:
    """One file and the key it gets."""

    path: Path
    key: str
    size: int


def put(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files, and folders whose files keep their path inside the folder."),
    ],
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="P", help="Put before every key, joined with one slash.")
    ] = "",
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Copy files into bronze. Any other S3 client works as well.

    The key of a folder's file is its path in the folder; the key of a single file is its name. Two files
    with the same key are refused; to get both versions, put them one after the other.

    Examples:

      sluice put exports/ --prefix topics

      sluice put crm.public.user+0+0000000000.avro --prefix topics/crm.public.user/partition=0
    """
    uploads = planned_uploads(paths, prefix)
    target = chosen_target(stack)
    began = time.monotonic()
    versions = _upload_all(target.client("s3"), target.bronze, uploads)
    seconds = time.monotonic() - began
    if as_json:
        objects = [{"key": item.key, "versionId": versions[item.key], "bytes": item.size} for item in uploads]
        print_json({"bucket": target.bronze, "seconds": round(seconds, 3), "objects": objects})
    else:
        size = human_bytes(sum(item.size for item in uploads))
        print(f"{counted(len(uploads), 'object')}, {size}, to s3://{target.bronze} in {seconds:.1f} s")


def planned_uploads(paths: Iterable[Path], prefix: str) -> tuple[Upload, ...]:
    """The files with their keys, sorted by key. Raises UsageError before anything is copied."""
    uploads: dict[str, Upload] = {}
    for path in paths:
        for file, name in _files(path):
            key = joined(prefix, name)
            size = file.stat().st_size
            if key in uploads:
                raise UsageError(
                    f"{uploads[key].path} and {file} would get the same key {key}",
                    next_step="Put them one after the other, or under two prefixes",
                )
            if size > LARGEST_PUT:
                raise UsageError(
                    f"{file} has {human_bytes(size)}, more than one PutObject takes",
                    next_step="Copy it with an S3 client that uploads in parts, such as `aws s3 cp`",
                )
            if len(_utf8(file, key)) > MAX_KEY_BYTES:
                raise UsageError(
                    f"The key of {file} is longer than the {MAX_KEY_BYTES} bytes that S3 allows",
                    next_step="Shorten the path or the prefix",
                )
            uploads[key] = Upload(file, key, size)
    if not uploads:
        raise UsageError("The named folders hold no file", next_step="Name files, or folders that hold files")
    return tuple(uploads[key] for key in sorted(uploads))


def joined(prefix: str, name: str) -> str:
    """Prefix and name with exactly one slash between them; the name alone without a prefix."""
    bare = prefix.rstrip("/")
    return f"{bare}/{name}" if bare else name


def _utf8(file: Path, key: str) -> bytes:
    try:
        return key.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"The name of {str(file)!r} is not UTF-8, as S3 keys are", next_step="Rename the file"
        ) from error


def _files(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield file, file.relative_to(path).as_posix()
    elif path.is_file():
        yield path, path.name
    else:
        raise UsageError(f"{path} doesn't exist or is not a file", next_step="Check the path")


def _upload_all(s3: Any, bucket: str, uploads: tuple[Upload, ...]) -> dict[str, str | None]:
    """Copy all files. Returns the versionId by key, None in an unversioned bucket."""
    versions: dict[str, str | None] = {}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = stderr_console()
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool,
    ):
        task = progress.add_task("Copying", total=len(uploads))
        copies = {pool.submit(_upload, s3, bucket, item): item.key for item in uploads}
        try:
            for copy in as_completed(copies):
                versions[copies[copy]] = copy.result()
                progress.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return versions


def _upload(s3: Any, bucket: str, upload: Upload) -> str | None:
    with upload.path.open("rb") as body:
        return s3.put_object(Bucket=bucket, Key=upload.key, Body=body).get("VersionId")
