"""Decides whether an engine has what a Hudi bundle links to, by what reflection says of the engine's classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, Collection, FrozenSet, Iterable, List, Mapping, Optional, Protocol, Sequence, Set, Tuple

from sluice.class_links import CLASS, CONSTRUCTOR, FIELD, INTERFACE_METHOD, METHOD, Link

# What an engine brings and a bundle doesn't: Spark, Hadoop, and the Scala and file formats that come with Spark.
ENGINE = ("org/apache/spark/", "org/apache/hadoop/", "org/apache/parquet/", "org/apache/avro/", "scala/")
# Not needed here: tables lie in S3, and Glue is told of them without Hive.
_UNUSED = ("org/apache/hadoop/hdfs/", "org/apache/hadoop/hive/")

RULES = 1  # raised when another Sluice would judge otherwise: what was checked by the old rules is checked again
ABSENT, CHANGED_KIND = "absent", "changed_kind"  # a class that was an interface, or the other way round

_ARRAY = re.compile(r"(\[\])*\Z")
_PRIMITIVES = {
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


Member = Tuple[str, str]  # name and descriptor


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

    def declares(self, name: str, descriptor: str) -> Optional[bool]:
        """Whether it has a member itself, one that isn't private. None: reflection can't say, since a type that a member names isn't there."""
        ...


Describe = Callable[[str], Optional[Described]]  # of a class by name (org/x/Y); None: there is no such class


@dataclass(frozen=True, order=True)
class MissingLink:
    """A link that the engine doesn't resolve: why, and some of the bundle's classes that have it."""

    link: Link
    why: str
    users: Tuple[str, ...] = ()

    def __str__(self) -> str:
        told = (
            "is not there"
            if self.why == ABSENT
            else "is a class where the bundle knows an interface, or the other way round"
        )
        return f"{self.link} {told} (for {', '.join(user.replace('/', '.') for user in self.users[:2])})"


@dataclass(frozen=True)
class Verdict:
    """What a check came to: `missing` is what keeps the bundle from working, `unknown` are absent classes that the baseline doesn't
    have either, `unchecked` counts links into classes whose members reflection couldn't list."""

    links: int
    missing: Tuple[MissingLink, ...] = ()
    unknown: Tuple[MissingLink, ...] = ()
    unchecked: int = 0


def needed(links: Iterable[Link], own: Collection[str]) -> FrozenSet[Link]:
    """The links that an engine must resolve: not those into the bundle's own classes, nor into what isn't used here."""
    return frozenset(link for link in links if link.owner not in own and not link.owner.startswith(_UNUSED))


def judge(links: Mapping[Link, Sequence[str]], describe: Describe, *, baseline: Collection[str]) -> Verdict:
    """Resolve each link (-> the classes that have it) as the JVM would (specification, 5.4.3).

    `baseline` are the engine's classes that the pinned bundle links to and the pinned engine has. A class that is absent and isn't
    among them may be one of a part that nobody uses: it is told, and refuses nothing. A member that an existing class lacks does.
    """
    missing: List[MissingLink] = []
    unknown: List[MissingLink] = []
    absent: Set[str] = set()
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


def _resolves(link: Link, describe: Describe) -> Optional[bool]:
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


def methods_in(text: str) -> FrozenSet[Member]:
    """The methods that aren't private, from reflection's array of them as java.util.Arrays.toString gives it."""
    found = set()
    for item in _items(text):
        head, _, rest = item.partition("(")
        words = head.split(" ")
        if "private" not in words:
            found.add((words[-1].rpartition(".")[2], f"({_row(rest)}){descriptor(words[-2])}"))
    return frozenset(found)


def constructors_in(text: str) -> FrozenSet[Member]:
    """The same of constructors."""
    parts = (item.partition("(") for item in _items(text))
    return frozenset((CONSTRUCTOR, f"({_row(rest)})V") for head, _, rest in parts if "private" not in head.split(" "))


def fields_in(text: str) -> FrozenSet[Member]:
    """The same of fields."""
    words = (item.split(" ") for item in _items(text))
    return frozenset((found[-1].rpartition(".")[2], descriptor(found[-2])) for found in words if "private" not in found)


def interfaces_in(text: str) -> Tuple[str, ...]:
    """The names of an array of interfaces: "[interface a.B, interface a.C]"."""
    return tuple(item.rpartition(" ")[2].replace(".", "/") for item in _items(text))


def descriptor(type_name: str) -> str:
    """Reflection's name of a type in the class file's form: java.lang.String[] -> [Ljava/lang/String;."""
    element = _ARRAY.sub("", type_name)
    depth = (len(type_name) - len(element)) // 2
    return "[" * depth + (_PRIMITIVES.get(element) or f"L{element.replace('.', '/')};")


def _items(array: str) -> List[str]:
    """The items of "[a, b]": none of reflection's texts has a comma before a space in itself."""
    return array[1:-1].split(", ") if len(array) > 2 else []


def _row(rest: str) -> str:
    """ "int,java.lang.String) throws x" -> ILjava/lang/String;"""
    taken = rest.partition(")")[0]
    return "".join(descriptor(one) for one in taken.split(",")) if taken else ""
