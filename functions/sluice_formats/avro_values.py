"""Decodes the binary values of an Avro schema by Python code that is made for the schema.

A general decoder asks of each value anew what its type is: fastavro takes 1.6 times as long for the same dictionaries,
refuses symbols of enums that other writers write, and takes a negative symbol for the last one.
https://avro.apache.org/docs/1.11.1/specification/#binary-encoding
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Callable

from sluice.schema.limits import full_name
from sluice_formats.errors import CorruptObject

# Decodes so many values of `bytes` from a place on. Returns them, and the place behind them, which is within the bytes.
# Raises any exception for damaged bytes.
Decoder = Callable[[bytes, int, int], tuple[list[Any], int]]

# Fields of a schema with statements of their own. Those of twenty thousand would take a gigabyte to compile.
_MOST_FIELDS = 1_000
_LONG = ("v = b[p]", "if v > 127:", " v, p = long_at(b, p)", "else:", " v = v >> 1 ^ -(v & 1)", " p += 1")
_END = ("n = b[p]", "p += 1", "if n & 129:", " e, p = end_at(b, p)", "else:", " e = p + (n >> 1)")  # a byte, and even
_PRIMITIVES: Mapping[str, Sequence[str]] = {
    "null": ("v = None",),
    "boolean": ("v = b[p] != 0", "p += 1"),
    "int": _LONG,
    "long": _LONG,
    "float": ("v = float_at(b, p)[0]", "p += 4"),
    "double": ("v = double_at(b, p)[0]", "p += 8"),
    "bytes": (*_END, "v = b[p:e]", "p = e"),
    "string": (*_END, "v = b[p:e].decode('utf-8', errors)", "p = e"),
}
# A number of several bytes: their high bits are in the sum, and subtracted from it.
_LONG_AT = "\n".join(
    (
        "def long_at(b, p):",
        " n = b[p]",
        " if n < 128:",
        "  return n >> 1 ^ -(n & 1), p + 1",
        *(
            line
            for place in range(1, 10)
            for line in (
                f" x = b[p + {place}]",
                f" n += x << {7 * place}",
                f" if x < {128 if place < 9 else 2}:",  # the tenth has the last of 64 bits
                f"  n -= {sum(128 << 7 * before for before in range(place))}",
                f"  return n >> 1 ^ -(n & 1), p + {place + 1}",
            )
        ),
        " raise ValueError('a number has more than 64 bits')",
    )
)
_END_AT = """
def end_at(b, p):
 n, p = long_at(b, p - 1)
 if n < 0:
  raise ValueError('a length is negative')
 return p + n, p
"""
_DECODE = """
def decode(b, p, count):
 spent[0] = 0
 values = []
 add = values.append
 for _ in range(count):
  {read}
  add(v)
 if p > len(b):
  raise ValueError("the last value is cut")
 return values, p
"""
_RECORD = """
def {name}(b, p):
 r = {}
 {read}
 return r, p
"""
_WIDE = """
def {name}(b, p):
 r = {}
 for k, read in zip({names}, {reads}):
  r[k], p = read(b, p)
 return r, p
"""
_ITEMS = """
def {name}(b, p):
 items = {empty}
 while True:
  c, p = long_at(b, p)
  if c < 0:
   c, (_, p) = -c, long_at(b, p)
  if not c:
   return items, p
  {bound}
  for _ in range(c):
   {read}
"""
# Values without bytes of their own, such as nulls: a list of some bytes may say that it has any number of them.
_BOUND = ("spent[0] += c", "if spent[0] > len(b):", " raise ValueError('lists have more values than bytes')")
_ARRAY, _MAP = _ITEMS.replace("{empty}", "[]"), _ITEMS.replace("{empty}", "{}")
_VALUE = """
def {name}(b, p):
 {read}
 return v, p
"""


def decoder_of(schema: Any, errors: str = "surrogateescape") -> Decoder:
    """A function that decodes values of a schema (as JSON values), without the meaning of logical types.

    `errors` says what becomes of bytes of a text that aren't UTF-8, as it does for `bytes.decode`. Raises CorruptObject
    for a schema that isn't one.
    """
    code = _Code(errors)
    try:
        read = code.read(schema, "")
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptObject(
            "The Avro header's schema has a type that Avro doesn't have", cause=repr(error)[:200]
        ) from error
    code.text.append(_with(_DECODE, read=read))
    # The text has no word of the schema, and reaches no built-in but those that are named here.
    exec("\n".join(code.text), code.names)  # nosec B102
    decoder: Decoder = code.names["decode"]
    return decoder


class _Code:
    """The text of a decoder's functions, and what the names in it stand for."""

    def __init__(self, errors: str) -> None:
        self.text: list[str] = [_LONG_AT, _END_AT]
        self.names: dict[str, Any] = {
            "__builtins__": {"range": range, "zip": zip, "len": len, "ValueError": ValueError},
            "float_at": Struct("<f").unpack_from,
            "double_at": Struct("<d").unpack_from,
            "errors": errors,
            "spent": [0],
        }
        self._empty = {tuple(_PRIMITIVES["null"])}  # the statements of types whose values may take no bytes
        self._named: dict[str, Sequence[str]] = {}
        self._functions: dict[str, str] = {}  # their names, by their texts
        self._left = _MOST_FIELDS

    def read(self, node: Any, space: str) -> Sequence[str]:
        """The statements that set `v` to a value of a type at `p`, and `p` to the place behind it.

        `space` is the namespace that names without one are of. Raises KeyError, TypeError and ValueError.
        """
        if isinstance(node, list):
            return self._union(node, space)
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return _PRIMITIVES[node]
            full = f"{space}.{node}" if space and "." not in node else node
            return self._named[full] if full in self._named else self._named[node]
        kind = node["type"]
        if kind == "array":
            read = self.read(node["items"], space)
            return self._call(
                _ARRAY, bound=_BOUND if tuple(read) in self._empty else (), read=(*read, "items.append(v)")
            )
        if kind == "map":
            value = self.read(node["values"], space)
            return self._call(_MAP, bound=(), read=(*_PRIMITIVES["string"], "k = v", *value, "items[k] = v"))
        if kind not in ("record", "error", "enum", "fixed"):
            return self.read(kind, space)
        full, inner = full_name(node, space)
        if kind == "enum":
            symbols = self._constant([str(symbol) for symbol in node["symbols"]])
            self._named[full] = (*_LONG, f"v = {symbols}[v if v >= 0 else len({symbols})]")
        elif kind == "fixed":
            self._named[full] = (
                f"e = p + {_size(node['size'])}",
                "v = b[p:e]",
                "if e > len(b):",  # no byte of it would be missed in a list without end
                " raise ValueError('a value is cut')",
                "p = e",
            )
            self._empty.update(() if node["size"] else (tuple(self._named[full]),))
        else:
            self._named[full] = self._record(node["fields"], inner)
        return self._named[full]

    def _record(self, fields: Sequence[Mapping[str, Any]], space: str) -> Sequence[str]:
        reads = [self.read(field["type"], space) for field in fields]
        self._left -= len(fields)
        record = self._with_fields(fields, reads)
        if all(tuple(read) in self._empty for read in reads):
            self._empty.add(tuple(record))
        return record

    def _with_fields(self, fields: Sequence[Mapping[str, Any]], reads: Sequence[Sequence[str]]) -> Sequence[str]:
        if self._left < 0:
            names, functions = self._constant([field["name"] for field in fields]), self._list(reads)
            return self._call(_WIDE.replace("{names}", names).replace("{reads}", functions))
        statements = [
            statement
            for field, read in zip(fields, reads)
            for statement in (*read, f"r[{self._constant(field['name'])}] = v")
        ]
        return self._call(_RECORD, read=statements)

    def _union(self, types: Sequence[Any], space: str) -> Sequence[str]:
        reads = [self.read(node, space) for node in types]
        if len(types) == 2 and "null" in types:
            null = types.index("null")
            other = [f" {line}" for line in reads[1 - null]]
            choose = (f"if n == {2 * (1 - null)}:", *other, f"elif n == {2 * null}:", " v = None")
            return ("n = b[p]", "p += 1", *choose, "else:", " raise ValueError('a union has no such type')")
        return (*_LONG, f"v, p = {self._list(reads)}[v if v >= 0 else {len(types)}](b, p)")

    def _list(self, reads: Sequence[Sequence[str]]) -> str:
        """The name of a list of functions, one for each type."""
        name = self._constant(None)
        self.text.append(f"{name} = [{', '.join(self._function(_VALUE, read=read) for read in reads)}]")
        return name

    def _call(self, form: str, **parts: Sequence[str]) -> Sequence[str]:
        return (f"v, p = {self._function(form, **parts)}(b, p)",)

    def _function(self, form: str, **parts: Sequence[str]) -> str:
        text = _with(form, **parts)
        if text not in self._functions:
            self._functions[text] = f"read_{len(self._functions)}"
            self.text.append(text.replace("{name}", self._functions[text], 1))
        return self._functions[text]

    def _constant(self, value: Any) -> str:
        name = f"k_{len(self.names)}"
        self.names[name] = value
        return name


def _with(form: str, **parts: Sequence[str]) -> str:
    """A text with the statements of each part in its place, as deep as the place is."""
    lines: list[str] = []
    for line in form.splitlines():
        statements = parts.get(line.strip().strip("{}"))
        indent = line[: len(line) - len(line.lstrip())]
        lines += [line] if statements is None else [indent + statement for statement in statements]
    return "\n".join(lines)


def _size(size: Any) -> int:
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"a size of {size!r}"[:100])
    return int(size)
