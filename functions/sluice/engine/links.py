"""What a compiled Java class links to in other jars, read from its constant pool (Java Virtual Machine Specification, 4.4).

Decides whether an engine has what a Hudi bundle links to, by what reflection says of the engine's classes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Optional,
    Protocol,
)

from sluice.errors import NotAClass

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


def links_of(content: bytes, prefixes: tuple[str, ...]) -> frozenset[Link]:
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
        found: set[Link] = set()
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


def _constant_pool(content: bytes) -> tuple[list[Any], list[int], list[tuple[str, int, int]]]:
    """The pool's entries by index, those that are classes, and (kind, class, name and type) of those that are members."""
    count = content[8] << 8 | content[9]
    pool: list[Any] = [None] * count
    classes: list[int] = []
    members: list[tuple[str, int, int]] = []
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


# What an engine brings and a bundle doesn't: Spark, Hadoop, and the Scala and file formats that come with Spark.
ENGINE = ("org/apache/spark/", "org/apache/hadoop/", "org/apache/parquet/", "org/apache/avro/", "scala/")
# Not needed here: tables lie in S3, and Glue is told of them without Hive.
_UNUSED = ("org/apache/hadoop/hdfs/", "org/apache/hadoop/hive/")

RULES = 1  # raised when another Sluice would judge otherwise: what was checked by the old rules is checked again
ABSENT, CHANGED_KIND = "absent", "changed_kind"  # a class that was an interface, or the other way round

_ARRAY = re.compile(r"(\[\])*\Z")
_PRIMITIVE_DESCRIPTORS = {
    "byte": "B",
    "char": "C",
    "double": "D",
    "float": "F",
    "int": "I",
    "long": "J",
    "short": "S",
    "boolean": "Z",
    "void": "V",
}


Member = tuple[str, str]  # name and descriptor


class Described(Protocol):
    """A class as reflection has it. Asked for what a link needs and no more: each answer may be a round trip."""

    @property
    def interface(self) -> bool:
        """Whether it is one."""
        ...

    @property
    def parents(self) -> Sequence[str]:
        """Its superclass and interfaces, in a class file's form."""
        ...

    def declares(self, name: str, descriptor: str) -> bool | None:
        """Whether it has a member itself, one that isn't private. None: reflection can't say, since a type that a member names isn't there."""
        ...


Describe = Callable[[str], Optional[Described]]  # of a class by name (org/x/Y); None: there is no such class


@dataclass(frozen=True, order=True)
class MissingLink:
    """A link that the engine doesn't resolve: why, and some of the bundle's classes that have it."""

    link: Link
    why: str
    users: tuple[str, ...] = ()

    def __str__(self) -> str:
        summary = (
            "is not there"
            if self.why == ABSENT
            else "is a class where the bundle knows an interface, or the other way round"
        )
        return f"{self.link} {summary} (for {', '.join(user.replace('/', '.') for user in self.users[:2])})"


@dataclass(frozen=True)
class Verdict:
    """What a check came to: `missing` is what keeps the bundle from working, `unknown` are absent classes that the baseline doesn't
    have either, `unchecked` counts links into classes whose members reflection couldn't list."""

    links: int
    missing: tuple[MissingLink, ...] = ()
    unknown: tuple[MissingLink, ...] = ()
    unchecked: int = 0


def needed(links: Iterable[Link], own: Collection[str]) -> frozenset[Link]:
    """The links that an engine must resolve: not those into the bundle's own classes, nor into what isn't used here."""
    return frozenset(link for link in links if link.owner not in own and not link.owner.startswith(_UNUSED))


def judge(links: Mapping[Link, Sequence[str]], describe: Describe, *, baseline: Collection[str]) -> Verdict:
    """Resolve each link (-> the classes that have it) as the JVM would (specification, 5.4.3).

    `baseline` are the engine's classes that the pinned bundle links to and the pinned engine has. A class that is absent and isn't
    among them may be one of a part that nobody uses: it is told, and refuses nothing. A member that an existing class lacks does.
    """
    missing: list[MissingLink] = []
    unknown: list[MissingLink] = []
    absent: set[str] = set()
    unchecked = 0
    for link in sorted(links):
        found = describe(link.owner)
        users = tuple(sorted(links[link])[:5])
        if found is None:
            if link.owner not in absent:  # told once, not for each of its members
                absent.add(link.owner)
                (missing if link.owner in baseline else unknown).append(MissingLink(Link(link.owner), ABSENT, users))
        elif link.kind == CLASS:
            continue
        elif link.kind != FIELD and found.interface != (link.kind == INTERFACE_METHOD):
            missing.append(MissingLink(link, CHANGED_KIND, users))
        else:
            has = _resolves(link, describe)
            unchecked += has is None
            if has is False:
                missing.append(MissingLink(link, ABSENT, users))
    return Verdict(len(links), tuple(missing), tuple(unknown), unchecked)


def _resolves(link: Link, describe: Describe) -> bool | None:
    """Whether the owner or something above it has the member; None when a class in between can't be asked."""
    pending, seen, asked_all = [link.owner], {link.owner}, True
    while pending:
        found = describe(pending.pop())
        if found is None:
            asked_all = False
            continue
        has = found.declares(link.name, link.descriptor)
        if has:
            return True
        asked_all = asked_all and has is not None
        if link.name != CONSTRUCTOR:  # those aren't inherited
            pending += [parent for parent in found.parents if parent not in seen]
            seen.update(found.parents)
    if link.kind == INTERFACE_METHOD and _resolves(
        Link("java/lang/Object", METHOD, link.name, link.descriptor), describe
    ):
        return True  # an interface has Object's public methods
    return False if asked_all else None


def methods_in(text: str) -> frozenset[Member]:
    """The methods that aren't private, from reflection's array of them as java.util.Arrays.toString gives it."""
    found = set()
    for item in _items(text):
        head, _, rest = item.partition("(")
        words = head.split(" ")
        if "private" not in words:
            found.add((words[-1].rpartition(".")[2], f"({_row(rest)}){descriptor(words[-2])}"))
    return frozenset(found)


def constructors_in(text: str) -> frozenset[Member]:
    """The same of constructors."""
    parts = (item.partition("(") for item in _items(text))
    return frozenset((CONSTRUCTOR, f"({_row(rest)})V") for head, _, rest in parts if "private" not in head.split(" "))


def fields_in(text: str) -> frozenset[Member]:
    """The same of fields."""
    words = (item.split(" ") for item in _items(text))
    return frozenset((found[-1].rpartition(".")[2], descriptor(found[-2])) for found in words if "private" not in found)


def interfaces_in(text: str) -> tuple[str, ...]:
    """The names of an array of interfaces: "[interface a.B, interface a.C]"."""
    return tuple(item.rpartition(" ")[2].replace(".", "/") for item in _items(text))


def descriptor(type_name: str) -> str:
    """Reflection's name of a type in the class file's form: java.lang.String[] -> [Ljava/lang/String;."""
    element = _ARRAY.sub("", type_name)
    depth = (len(type_name) - len(element)) // 2
    return "[" * depth + (_PRIMITIVE_DESCRIPTORS.get(element) or f"L{element.replace('.', '/')};")


def _items(array: str) -> list[str]:
    """The items of "[a, b]": none of reflection's texts has a comma before a space in itself."""
    return array[1:-1].split(", ") if len(array) > 2 else []


def _row(rest: str) -> str:
    """ "int,java.lang.String) throws x" -> ILjava/lang/String;"""
    taken = rest.partition(")")[0]
    return "".join(descriptor(one) for one in taken.split(",")) if taken else ""
