"""Decodes Thrift's compact protocol into plain values: structs as {field id: value}, within bounds."""

from __future__ import annotations

import struct
from typing import Any, Dict, List

# https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
MAX_DEPTH = 24


class DamagedThrift(ValueError):
    """Bytes that aren't a struct of the compact protocol."""


def decode_struct(data: bytes) -> Dict[int, Any]:
    """The struct at the start of the bytes. Binary values are bytes. Raises DamagedThrift."""
    try:
        return _Reader(data).struct(0)
    except (IndexError, struct.error) as error:
        raise DamagedThrift("it ends early") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int) -> Dict[int, Any]:
        if depth > MAX_DEPTH:
            raise DamagedThrift("it nests too deeply")
        found: Dict[int, Any] = {}
        field = 0
        while True:
            head = self._data[self._at]
            self._at += 1
            if head == 0:
                return found
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 0x0F
            found[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # a list's booleans take a byte each
            self._at += 1
            return self._data[self._at - 1]
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind == _MAP:
            return self._map(depth)
        raise DamagedThrift(f"it holds the unknown type {kind}")

    def _list(self, depth: int) -> List[Any]:
        head = self._data[self._at]
        self._at += 1
        size = head >> 4 if head >> 4 != 15 else self._varint()
        self._room(size)
        if depth > MAX_DEPTH:
            raise DamagedThrift("it nests too deeply")
        kind = head & 0x0F
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> Dict[Any, Any]:
        size = self._varint()
        self._room(size)
        if not size:
            return {}
        if depth > MAX_DEPTH:
            raise DamagedThrift("it nests too deeply")
        kinds = self._data[self._at]
        self._at += 1
        pairs = [(self._value(kinds >> 4, depth + 1), self._value(kinds & 0x0F, depth + 1)) for _ in range(size)]
        return {repr(key): value for key, value in pairs}

    def _take(self, size: int) -> bytes:
        self._room(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def _room(self, size: int) -> None:
        """Every element takes a byte at least, so that a length can't ask for more than there is."""
        if size > len(self._data) - self._at:
            raise DamagedThrift("it ends early")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise DamagedThrift("it holds a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
