"""What a compiled Java class links to in other jars, read from its constant pool (Java Virtual Machine Specification, 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, FrozenSet, Iterable, List, Set, Tuple

from sluice.errors import SluiceError

CLASS, FIELD, METHOD, INTERFACE_METHOD = "class", "field", "method", "interface_method"
CONSTRUCTOR = "<init>"

_UTF8, _CLASS, _NAME_AND_TYPE = 1, 7, 12
_MEMBERS = {9: FIELD, 10: METHOD, 11: INTERFACE_METHOD}
_TWO_BYTES = (8, 16, 19, 20)  # String, MethodType, Module, Package: one index
_FOUR_BYTES = (3, 4, 17, 18)  # Integer, Float, Dynamic, InvokeDynamic
_EIGHT_BYTES = (5, 6)  # Long, Double: each takes two places of the pool
_METHOD_HANDLE = 15
_PRIMITIVES = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "Z": "boolean",
    "V": "void",
}


class NotAClass(SluiceError):
    """Bytes that are no class file, or one whose constant pool can't be read."""

    code = "not_a_class"
    next_step = "Put the jar in place again: it is damaged"


@dataclass(frozen=True, order=True)
class Link:
    """A class, or a member of one, that another class names. `owner` and `descriptor` are in the class file's own form (org/x/Y, (I)V)."""

    owner: str
    kind: str = CLASS
    name: str = ""
    descriptor: str = ""

    def __str__(self) -> str:
        """As a person writes it: org.x.Y.get(int): boolean."""
        owner = self.owner.replace("/", ".")
        if self.kind == CLASS:
            return owner
        if self.kind == FIELD:
            return f"{owner}.{self.name}: {_readable(self.descriptor)}"
        taken, _, given = self.descriptor[1:].partition(")")
        arguments = ", ".join(_readable(one) for one in types_of(taken))
        return (
            f"{owner}({arguments})"
            if self.name == CONSTRUCTOR
            else f"{owner}.{self.name}({arguments}): {_readable(given)}"
        )


def links_of(content: bytes, prefixes: Tuple[str, ...]) -> FrozenSet[Link]:
    """What a class file links to whose class begins with one of `prefixes` (org/apache/spark/). Raises NotAClass.

    Links are what the JVM resolves when the code first gets there: entries for classes, fields and methods. What is
    looked up by name at run time is no link. Of an array it is the class of its elements.
    """
    wanted = tuple(prefix.encode() for prefix in prefixes)
    if content[:4] != b"\xca\xfe\xba\xbe":
        raise NotAClass("The bytes don't begin as a class file does")
    if not any(
        prefix in content for prefix in wanted
    ):  # most classes of a bundle: a search costs a fraction of reading
        return frozenset()
    try:
        pool, classes, members = _constant_pool(content)
        found: Set[Link] = set()
        for index in classes:
            owner = _element(pool[pool[index]])
            if owner.startswith(wanted):
                found.add(Link(_text(owner)))
        for kind, index, name_and_type in members:
            owner = pool[pool[index]]
            if owner.startswith(wanted):
                name, descriptor = pool[name_and_type]
                found.add(Link(_text(owner), kind, _text(pool[name]), _text(pool[descriptor])))
    except (IndexError, TypeError, AttributeError) as error:
        raise NotAClass(f"The constant pool of a class can't be read: {error}") from error
    return frozenset(found)


def _constant_pool(content: bytes) -> Tuple[List[Any], List[int], List[Tuple[str, int, int]]]:
    """The pool's entries by index, those that are classes, and (kind, class, name and type) of those that are members."""
    count = content[8] << 8 | content[9]
    pool: List[Any] = [None] * count
    classes: List[int] = []
    members: List[Tuple[str, int, int]] = []
    at, index = 10, 1
    while index < count:
        tag = content[at]
        first = content[at + 1] << 8 | content[at + 2]
        if tag == _UTF8:
            pool[index] = content[at + 3 : at + 3 + first]
            at += 3 + first
        elif tag == _CLASS:
            pool[index] = first
            classes.append(index)
            at += 3
        elif tag in _MEMBERS:
            members.append((_MEMBERS[tag], first, content[at + 3] << 8 | content[at + 4]))
            at += 5
        elif tag == _NAME_AND_TYPE:
            pool[index] = (first, content[at + 3] << 8 | content[at + 4])
            at += 5
        elif tag in _TWO_BYTES:
            at += 3
        elif tag in _FOUR_BYTES:
            at += 5
        elif tag == _METHOD_HANDLE:
            at += 4
        elif tag in _EIGHT_BYTES:
            at += 9
            index += 1
        else:
            raise NotAClass(f"The constant pool of a class has an entry of the unknown kind {tag}")
        index += 1
    return pool, classes, members


def types_of(descriptors: str) -> Iterable[str]:
    """The single types of a row of them: "I[Ljava/lang/String;J" -> I, [Ljava/lang/String;, J."""
    at = 0
    while at < len(descriptors):
        end = at
        while descriptors[end] == "[":
            end += 1
        end = descriptors.index(";", end) if descriptors[end] == "L" else end
        yield descriptors[at : end + 1]
        at = end + 1


def _readable(descriptor: str) -> str:
    element = descriptor.lstrip("[")
    named = element[1:-1].replace("/", ".") if element.startswith("L") else _PRIMITIVES.get(element, element)
    return named + "[]" * (len(descriptor) - len(element))


def _element(name: bytes) -> bytes:
    """The class of an array's elements; any other class itself."""
    return name.lstrip(b"[")[1:].rstrip(b";") if name.startswith(b"[") else name


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")  # the JVM's own UTF-8 differs in what no name has
