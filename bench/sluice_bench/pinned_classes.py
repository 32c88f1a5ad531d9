"""Writes down the engine's classes that the pinned Hudi bundle links to: spark/sluice_spark/engine/pinned_classes.py."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap

import pyspark

from sluice_local.images.jars import HUDI, ensure_jars, hudi_bundle
from sluice_spark.engine.check import bundle_checksum, bundle_links

TARGET = Path(__file__).resolve().parents[2] / "spark" / "sluice_spark" / "pinned_classes.py"
_HEAD = '''"""The pinned Hudi bundle ({hudi}) and Spark, and the engine's classes that the one links to and the other has. Made by `make pinned-classes`."""
from __future__ import annotations

from typing import FrozenSet

# A bundle and an engine that are known to fit: tests/spark/test_engine.py asks for every link.
PINNED_BUNDLE = "{bundle}"
PINNED_SPARK = "{spark}"

_BY_PACKAGE = """
{lines}
"""


def _names(lines: str) -> FrozenSet[str]:
    """Each line is a package and some of its classes."""
    words = (line.split() for line in lines.splitlines())
    return frozenset(f"{{package}}/{{name}}" for package, *names in filter(None, words) for name in names)


PINNED_CLASSES: FrozenSet[str] = _names(_BY_PACKAGE)
'''


def module_text(classes: Iterable[str], *, bundle: str, spark: str, hudi: str = HUDI) -> str:
    """The module that names these classes."""
    packages: dict[str, list[str]] = defaultdict(list)
    for name in sorted(classes):
        package, _, simple = name.rpartition("/")
        packages[package].append(simple)
    lines = [
        f"{package} {part}"
        for package, names in packages.items()
        for part in wrap(" ".join(names), 170 - len(package), break_long_words=False, break_on_hyphens=False)
    ]
    return _HEAD.format(hudi=hudi, bundle=bundle, spark=spark, lines="\n".join(lines))


def main() -> None:
    """Fetch the bundle where it isn't in the cache, and write the module."""
    jar = hudi_bundle(ensure_jars(progress=lambda line: print(line, file=sys.stderr)))
    TARGET.write_text(
        module_text({link.owner for link in bundle_links(jar)}, bundle=bundle_checksum(jar), spark=pyspark.__version__),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
