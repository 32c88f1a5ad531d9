"""`sluice put`: copies files into the bronze bucket, like any S3 client."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from sluice.admission.routing import route_of
from sluice.admission.verdict import judge_read, judge_unread
from sluice.config.document import Configuration
from sluice.errors import CommandFailed, UsageError
from sluice.ledger.keys import PARKED
from sluice_cli.account.object import rule_steps, tells_topic
from sluice_cli.errors import plain_reason
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import bars
from sluice_cli.terminal.options import Json, Stack, argument, option
from sluice_cli.terminal.output import key_in_line, print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, readable_configuration
from sluice_cli.terminal.words import counted, human_bytes
from sluice_local.home import running_home

UPLOADS_AT_ONCE = 8
LEFT_OUT_SHOWN = 5


@dataclass(frozen=True)
class Upload:
    """One file and the key it gets."""

    path: Path
    key: str
    size: int


@dataclass(frozen=True)
class NotCopied:
    """A file or folder of a named folder that is not copied, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Unmatched:
    """A key that no rule takes, the topic that it tells, and why."""

    key: str
    reason: str
    topic: str | None = None

    @property
    def described(self) -> str:
        """The reason, with the topic that it is about: a file's name tells another one than its folder may."""
        return f"topic {self.topic}: {self.reason}" if self.topic else self.reason


@dataclass(frozen=True)
class Copies:
    """What is copied, sorted by key, and what is left out."""

    uploads: tuple[Upload, ...]
    left_out: tuple[NotCopied, ...]


def put(
    paths: Annotated[
        list[str], argument("PATH...", "Files, and folders whose files keep their path inside the folder.")
    ],
    prefix: Annotated[str, option("--prefix PREFIX", "Put before every key, joined with one slash.")] = "",
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Copy files into bronze. Any other S3 client works as well.

    The key of a folder's file is its path in the folder; the key of a single file is its name, and is printed.
    Two files with the same key are refused; to get both versions, put them one after the other.

    Hidden files and folders in folders are skipped, and so are the local stack's own folder, pipes, and links that lead
    out of the folder. Names that no rule in force takes are copied, and counted: their objects are parked until a rule
    takes them, or quarantined if they can't be decoded, as empty ones are.

    Examples:

      sluice put exports/ --prefix topics
      sluice put crm.user+0+0000000000.avro --prefix topics/crm.user/partition=0
    """
    copies = planned_copies(paths, prefix, stack_folder=running_home(os.environ, Path.cwd()).path)
    uploads = copies.uploads
    target = chosen_target(stack)
    _say_left_out(copies.left_out)
    began = time.monotonic()
    versions = upload_all(target.client("s3"), target.bronze, uploads)
    seconds = time.monotonic() - began
    readable, configuration = readable_configuration(target)
    unmatched = names_without_rule(uploads, configuration) if readable else ()
    if as_json:
        objects = [{"key": item.key, "versionId": versions[item.key], "bytes": item.size} for item in uploads]
        left_out = [asdict(item) for item in copies.left_out]
        document = {"bucket": target.bronze, "seconds": round(seconds, 3), "objects": objects, "left_out": left_out}
        print_json({**document, "no_rule": [asdict(item) for item in unmatched]})
    else:
        size = human_bytes(sum(item.size for item in uploads))
        key = key_in_line(uploads[0].key) if len(uploads) == 1 else ""
        line = f"{counted(len(uploads), 'object')}, {size}, to s3://{target.bronze} in {seconds:.1f} s"
        print_line(f"{line}: {key}" if key else line, whole=key)
        _say_unmatched(unmatched, len(uploads))


def planned_copies(paths: Iterable[str], prefix: str, *, stack_folder: Path) -> Copies:
    """The files with their keys. Raises UsageError and CommandFailed before anything is copied."""
    uploads: dict[str, Upload] = {}
    left_out: list[NotCopied] = []
    for path in paths:
        for file, name in _files(path, stack_folder, left_out):
            key = joined(prefix, name)
            try:
                size = file.stat().st_size
            except OSError as error:
                raise _unreadable(file, error) from error
            if key in uploads and file.resolve() == uploads[key].path.resolve():
                left_out.append(NotCopied(str(file), "named twice, and copied once"))
                continue
            if key in uploads:
                raise UsageError(
                    f"{visible(str(uploads[key].path))} and {visible(str(file))} would get the same key {visible(key)}",
                    next_step="Put them one after the other, or under two prefixes",
                )
            uploads[key] = Upload(file, key, size)
    if not uploads:
        _say_left_out(left_out)
        raise UsageError(
            "The named folders hold no file that is copied", next_step="Name files, or folders that hold files"
        )
    return Copies(tuple(uploads[key] for key in sorted(uploads)), tuple(dict.fromkeys(left_out)))


def _unreadable(file: Path, error: OSError) -> CommandFailed:
    return CommandFailed(
        f"{visible(str(file))} can't be read: {plain_reason(error)}",
        next_step="Put a folder whose files no other program removes meanwhile",
    )


def joined(prefix: str, name: str) -> str:
    """Prefix and name with exactly one slash between them; the name alone without a prefix."""
    bare = prefix.rstrip("/")
    return f"{bare}/{name}" if bare else name


def _files(path: str, stack_folder: Path, left_out: list[NotCopied]) -> Iterator[tuple[Path, str]]:
    """The files of a path, each with its name inside it. Adds to `left_out` what is not copied of a folder."""
    given = Path(path)
    if path and given.is_dir():  # an empty one is of a variable that is unset, not the folder that one is in
        yield from _files_of_folder(given, stack_folder.resolve(), left_out)
    elif given.is_file():
        yield given, given.name
    else:
        raise UsageError(
            f"{visible(path)} is no file or folder of this machine", next_step="Name files, or folders that hold files"
        )


def _files_of_folder(folder: Path, stack_folder: Path, left_out: list[NotCopied]) -> Iterator[tuple[Path, str]]:
    inside = folder.resolve()
    for parent, folders, files in os.walk(folder):
        for name in sorted(folders):
            path = Path(parent, name)
            why = _folder_left_out(path, stack_folder)
            if why:
                folders.remove(name)
                left_out.append(NotCopied(str(path), why))
        for name in sorted(files):
            path = Path(parent, name)
            if name.startswith("."):
                left_out.append(NotCopied(str(path), "hidden"))
            elif not path.resolve().is_relative_to(inside):
                left_out.append(NotCopied(str(path), "a link that leads out of the folder"))
            elif not path.is_file():
                left_out.append(NotCopied(str(path), "not a file, or gone"))
            else:
                yield path, path.relative_to(folder).as_posix()


def _folder_left_out(folder: Path, stack_folder: Path) -> str | None:
    if folder.resolve() == stack_folder:
        return "the local stack's own folder"
    if folder.name.startswith("."):
        return "hidden"
    return "a link to a folder" if folder.is_symlink() else None


def names_without_rule(uploads: Iterable[Upload], configuration: Configuration | None) -> tuple[Unmatched, ...]:
    """The keys whose objects no rule takes, by name and size. Files that are ignored or empty are not among them."""
    unmatched = []
    for item in uploads:
        route = route_of(item.key, item.size, configuration)
        verdict = judge_unread(route, item.size) or judge_read(route, configuration)
        if verdict.state == PARKED:
            unmatched.append(Unmatched(item.key, verdict.reason or "", route.topic))
    return tuple(unmatched)


def _say_unmatched(unmatched: Sequence[Unmatched], copied: int) -> None:
    if not unmatched:
        return
    reasons = Counter(item.described for item in unmatched)
    say(
        f"No rule takes {len(unmatched):,} of {counted(copied, 'name')}; these objects are parked until one does, or "
        "quarantined if they can't be decoded:"
    )
    for reason, number in reasons.most_common(LEFT_OUT_SHOWN):
        example = key_in_line(next(item.key for item in unmatched if item.described == reason))
        names = example if number == 1 else f"{number:,} names, for example {example}"
        say(f"  {visible(reason)}: {names}", whole=example)
    left_out = sum(number for _, number in reasons.most_common()[LEFT_OUT_SHOWN:])
    if left_out:
        say(f"  and {counted(left_out, 'other name')} (--json lists all)")
    with_topic = sum(tells_topic(item.key) for item in unmatched)
    for step in rule_steps(with_topic, len(unmatched) - with_topic):
        say(step)


def _say_left_out(left_out: Sequence[NotCopied]) -> None:
    for item in left_out[:LEFT_OUT_SHOWN]:
        say(f"Left out: {visible(item.path)}, {item.reason}")
    if len(left_out) > LEFT_OUT_SHOWN:
        say(f"Left out: {len(left_out) - LEFT_OUT_SHOWN:,} more (--json lists all)")


def upload_all(s3: Any, bucket: str, uploads: tuple[Upload, ...]) -> dict[str, str | None]:
    """Copy all files. Returns the versionId by key, None in an unversioned bucket."""
    versions: dict[str, str | None] = {}
    copies: dict[Future[str | None], str] = {}
    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
        try:
            with bars(quiet=False) as advance:
                advance("Copying", 0, len(uploads))
                try:
                    for item in uploads:
                        copies[pool.submit(_upload, s3, bucket, item)] = item.key
                    for copy in as_completed(copies):
                        versions[copies[copy]] = copy.result()
                        advance("Copying", len(versions), len(uploads))
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)  # what is on its way arrives, and counts
                    raise
        except BaseException:  # a second Ctrl-C ends the wait
            arrived = sum(copy.done() and not copy.cancelled() and copy.exception() is None for copy in copies)
            say(f"{arrived:,} of {counted(len(uploads), 'object')} copied; the same command copies all again")
            raise
    return versions


def _upload(s3: Any, bucket: str, upload: Upload) -> str | None:
    try:
        body = upload.path.open("rb")
    except OSError as error:
        raise _unreadable(upload.path, error) from error
    with body:
        return s3.put_object(Bucket=bucket, Key=upload.key, Body=body).get("VersionId")
