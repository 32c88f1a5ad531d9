"""Reads a Hudi bundle's jar: what tells it from every other, and what its own classes link to."""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from pathlib import Path
from typing import Dict, List, Mapping, Set

from sluice.class_links import Link, links_of
from sluice.engine_links import ENGINE, needed
from sluice.errors import SluiceError

# The bundle's own classes, and those of it in Spark's packages. What else is in the jar are other projects' under other names.
_OWN = ("org/apache/hudi/", "org/apache/spark/")
_OTHERS = ("org/apache/hudi/org/", "org/apache/hudi/com/", "org/apache/hudi/javax/")
_SUFFIX = ".class"
# The record that ends a zip (APPNOTE.TXT of the format, 4.3.16): its signature, its length, and that with the longest comment.
_END, _END_BYTES, _LONGEST_END = b"PK\x05\x06", 22, 22 + 65_535
_ZIP64 = 0xFFFFFFFF  # the directory's place is told elsewhere: then the whole file is hashed


class NotAJar(SluiceError):
    """The Hudi bundle on the class path is no jar; facts: `jar`."""

    code = "not_a_jar"
    next_step = "Put the jar in place again, or correct the parameter HudiJars"


def bundle_checksum(jar: Path) -> str:
    """Sixteen hexadecimal digits for what is in a jar: a hash of its directory, which has every file's name, size and CRC-32.

    Each start of a run asks for it, and hashing 100 MB would delay each by as long as all else that this check does. Raises NotAJar.
    """
    with jar.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _LONGEST_END))
        tail = file.read()
        end = tail.rfind(_END)
        if end < 0 or len(tail) < end + _END_BYTES:
            raise NotAJar(f"{jar} doesn't end as a jar does", jar=str(jar))
        size, offset = struct.unpack_from("<LL", tail, end + 12)
        file.seek(0 if offset == _ZIP64 or size == _ZIP64 else offset)
        return hashlib.sha256(file.read(length if offset == _ZIP64 or size == _ZIP64 else size)).hexdigest()[:16]


def bundle_links(jar: Path) -> Mapping[Link, List[str]]:
    """What the bundle's own classes need of the engine, each with the classes that do. Raises NotAClass for a damaged one."""
    users: Dict[Link, List[str]] = {}
    with zipfile.ZipFile(jar) as archive:
        names = [entry.filename for entry in archive.infolist() if entry.filename.endswith(_SUFFIX)]
        held: Set[str] = {name[: -len(_SUFFIX)] for name in names}
        for name in names:
            if name.startswith(_OWN) and not name.startswith(_OTHERS):
                for link in needed(links_of(archive.read(name), ENGINE), held):
                    users.setdefault(link, []).append(name[: -len(_SUFFIX)])
    return users
