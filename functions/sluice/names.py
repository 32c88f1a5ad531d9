"""Which names a table, a lane, a column and a topic can have.

What a source's column is called in its table: by the rule for names that Avro has, in which Hudi keeps its schemas.
"""

from __future__ import annotations

import re
from functools import lru_cache

# Lower-case names only: Glue folds case, and a name becomes an S3 path, a Hudi name and SQL.
NAME = re.compile(r"[a-z_][a-z0-9_]{0,127}")
LANE = re.compile(r"[a-z0-9-]{1,32}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")  # Avro's own rule for names
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule


_BEYOND = 0x10000  # from here on a character is two of Java's, neither of them a letter


@lru_cache(maxsize=8192)
def stored_name(name: str) -> str:
    """The name itself where it consists of letters, digits and `_` and begins with no digit; else with `_` for what it can't have.

    As Debezium does with `field.name.adjustment.mode=avro`: `dash-col` is `dash_col`, `1digit` is `_1digit`. JSON and Parquet have
    such names, and Avro's own rule is kept by its Java writers. https://avro.apache.org/docs/1.11.1/specification/#names
    """
    adjusted = "".join(character if _may_follow(character) else "_" for character in name)
    return f"_{adjusted}" if not adjusted or adjusted[0].isdecimal() else adjusted


def _may_follow(character: str) -> bool:
    """As Avro's Java library tells it, by Character.isLetterOrDigit of one char: letters of any script among them."""
    return ord(character) < _BEYOND and (character == "_" or character.isalpha() or character.isdecimal())
