"""Output that can't steer a terminal, whichever module prints it, and that is never lost without a word.

Keys, topics, values and messages come from others. `guard_output` escapes what is written to stdout and stderr, and
`escaping_console` what rich writes. A write that fails raises OutputLost, or ReaderGone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from sluice_cli.errors import OutputLost, ReaderGone

# Unicode's categories Cc, Cf, Cs, Zl and Zp: control and format characters (bidirectional ones and tags, too), lone
# surrogates, separators of lines. Left out are newline, tab, and the two joiners, which some scripts need.
_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
_SHORT = {"\t": "\\t", "\n": "\\n"}
_IN_TEXT, _IN_FIELD = re.compile(f"[{_STEERING}]"), re.compile(f"[\t\n{_STEERING}]")


def escaped(text: str) -> str:
    r"""Escape what could steer a terminal, and keep lines and tabs: a bell becomes `\x07`."""
    return _IN_TEXT.sub(_escape, text)


def visible(text: str) -> str:
    r"""Escape what could steer a terminal, lines and tabs too, for text that is one field of a line."""
    return _IN_FIELD.sub(_escape, text)


def shell_text(words: Iterable[str]) -> str:
    r"""A command to copy, each word quoted for a shell. Bash and zsh read `$'\x07'` as a bell, which can't be shown."""
    return " ".join(_ansi_quoted(word) if _IN_FIELD.search(word) else shlex.quote(word) for word in words)


def _ansi_quoted(word: str) -> str:
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_IN_FIELD.sub(_escape_bytes, plain)}'"


def _escape_bytes(match: re.Match[str]) -> str:
    """As bytes of UTF-8, which need no locale; a byte of a name that is no text is itself."""
    errors = "surrogateescape" if "\udc80" <= match[0] <= "\udcff" else "surrogatepass"
    return _SHORT.get(match[0]) or "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", errors))


def is_text(given: str) -> bool:
    """False for text with bytes that are not UTF-8, which Python keeps as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in given)


def json_escaped(document: str) -> str:
    """Escape the same in a JSON document, where only strings hold such characters."""
    return _IN_TEXT.sub(lambda match: json.dumps(match[0])[1:-1], document)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] in _SHORT:
        return _SHORT[match[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _PlainStatus(Status):
    """A spinner whose text is no markup."""

    def update(self, status: RenderableType | None = None, **settings: Any) -> None:
        super().update(Text(status) if isinstance(status, str) else status, **settings)


class _EscapingConsole(Console):
    """A console that escapes text and keeps rich's own sequences."""

    @property
    def file(self) -> IO[str]:
        """The stream behind every proxy: while a spinner runs, rich puts one of its own before the escaping stream."""
        file = super().file
        while (behind := getattr(file, "rich_proxied_file", None)) is not None:
            file = behind
        return file

    @file.setter
    def file(self, file: IO[str]) -> None:
        self._file = file

    def status(self, status: RenderableType, **settings: Any) -> Status:
        return _PlainStatus(Text(status) if isinstance(status, str) else status, console=self, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def escaping_console(**settings: Any) -> Console:
    """A console of rich, for stdout by default. Text has no markup; `settings` are rich's own."""
    return _EscapingConsole(markup=False, **settings)


class _CheckedStream:
    """A text stream whose failed writes raise OutputLost or ReaderGone: Typer would take an OSError.

    Of a stream for messages only ReaderGone is raised, since no other place is left to report the failure.
    """

    def __init__(self, stream: TextIO, *, for_messages: bool) -> None:
        self._stream = stream
        self._for_messages = for_messages

    def write(self, text: str) -> int:
        if text:  # Typer writes nothing as a trial, and takes a failure for an answer
            with self._checked():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._checked():
            self._stream.flush()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _discard_rest(self._stream)
            if error.errno == errno.EPIPE:
                raise ReaderGone from error
            if not self._for_messages:
                raise OutputLost(f"The output can't be written: {error.strerror or error}") from error
        except UnicodeEncodeError as error:
            raise OutputLost(
                f"The output can't be written: its encoding, {error.encoding}, lacks {error.object[error.start]!a}",
                next_step="Set PYTHONIOENCODING=utf-8",
            ) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _discard_rest(stream: TextIO) -> None:
    """Send what is still buffered nowhere: the interpreter's end would try to write it again, and fail."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return  # it has no file
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


class _EscapingStream:
    """A text stream that escapes what is written to it. Consoles of rich write to `rich_proxied_file`."""

    def __init__(self, stream: _CheckedStream) -> None:
        self.rich_proxied_file = cast(TextIO, stream)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def guard_output() -> None:
    """Escape from now on what is written to stdout and stderr, tracebacks too. A closed stdin becomes an empty one."""
    sys.stdin = sys.stdin or open(os.devnull)  # None where the process was started without it: `<&-` in a shell
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr, for_messages=True)


def _guarded(stream: TextIO | None, *, for_messages: bool = False) -> TextIO:
    if stream is None:  # the process was started without the stream: `>&-` in a shell
        stream = open(os.devnull)  # refuses what is written, and takes the place of files that are opened later
    if isinstance(stream, _EscapingStream):
        return stream
    return cast(TextIO, _EscapingStream(_CheckedStream(stream, for_messages=for_messages)))


@contextmanager
def guarded_output() -> Iterator[None]:
    """Escape what is written to stdout and stderr inside the block."""
    before = sys.stdout, sys.stderr
    guard_output()
    guards = sys.stdout, sys.stderr
    try:
        yield
    finally:  # Typer replaces the streams where the reader of a pipe has gone
        if (sys.stdout, sys.stderr) == guards:
            sys.stdout, sys.stderr = before


def exact_stdout() -> TextIO:
    """Stdout for data that must stay as it is: unescaped in a file or a pipe, escaped in a terminal."""
    if isinstance(sys.stdout, _EscapingStream) and not sys.stdout.isatty():
        return sys.stdout.rich_proxied_file
    return sys.stdout
