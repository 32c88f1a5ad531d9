"""Answers kept in memory, each right until its table's next instant."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True)
class Answer:
    """The body of an answer, and the newest completed instant of its table when it was read."""

    newest: str
    body: bytes


class AnswerCache:
    """The answers used last. Safe to use from several threads."""

    def __init__(self, max_bytes: int, max_answers: int) -> None:
        """`max_bytes` bounds the questions and bodies, `max_answers` what each answer takes besides."""
        self._max_bytes, self._max_answers, self._bytes = max_bytes, max_answers, 0
        self._answers: OrderedDict[tuple[str, ...], Answer] = OrderedDict()
        self._lock = Lock()

    def get(self, question: tuple[str, ...], newest: str) -> Answer | None:
        """The answer to a question, if the table's newest instant is still the same."""
        with self._lock:
            answer = self._answers.get(question)
            if answer is None or answer.newest != newest:
                return None
            self._answers.move_to_end(question)
            return answer

    def keep(self, question: tuple[str, ...], answer: Answer) -> None:
        """Keep an answer in place of an older one; one larger than everything that may be kept is left out."""
        with self._lock:
            replaced = self._answers.pop(question, None)
            self._bytes -= _size(question, replaced) if replaced is not None else 0
            if _size(question, answer) > self._max_bytes:
                return
            self._answers[question] = answer
            self._bytes += _size(question, answer)
            while self._bytes > self._max_bytes or len(self._answers) > self._max_answers:
                self._bytes -= _size(*self._answers.popitem(last=False))


def _size(question: tuple[str, ...], answer: Answer) -> int:
    """The bytes that an answer takes; a client may write a question far longer than its answer."""
    return sum(map(len, question)) + len(answer.body)
