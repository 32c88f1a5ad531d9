"""A JVM that has lost a class for good ends its run, and no table is blamed for it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sluice_spark.run.spark_engine import lost_class

LOST = "java.lang.NoClassDefFoundError"


@dataclass
class Thrown:
    """A Java exception as Py4J shows it."""

    name: str
    cause: Thrown | None = None

    def getClass(self) -> Thrown:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.name

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self.cause

    def toString(self) -> str:  # noqa: N802
        return f"{self.name}: Could not initialize class x.Y"


class JavaError(Exception):
    def __init__(self, attribute: str, thrown: Thrown) -> None:
        super().__init__("called")
        setattr(self, attribute, thrown)


@pytest.mark.parametrize("attribute", ["java_exception", "_origin"])
def test_a_class_that_was_lost_is_found_among_the_causes(attribute: str) -> None:
    aborted = Thrown("java.util.concurrent.ExecutionException", Thrown("org.apache.spark.SparkException", Thrown(LOST)))
    wrapped = ValueError("wrapped")
    wrapped.__cause__ = JavaError(attribute, aborted)
    assert lost_class(wrapped) == lost_class(wrapped.__cause__) == f"{LOST}: Could not initialize class x.Y"


def test_other_errors_and_texts_that_name_one_lose_no_class() -> None:
    assert lost_class(ValueError(f"{LOST}: Could not initialize class x.Y")) == ""
    assert lost_class(JavaError("java_exception", Thrown("java.io.IOException"))) == ""


def test_causes_that_go_in_circles_come_to_an_end() -> None:
    circle = Thrown("java.io.IOException")
    circle.cause = circle
    assert lost_class(JavaError("java_exception", circle)) == ""
