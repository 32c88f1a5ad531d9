"""The errors that end a run because Spark is gone or isn't fit for it: no table's fault, so no table is blamed for them."""

from __future__ import annotations

from sluice.engine_report import EngineDoesNotFit, NoBundle
from sluice.errors import SluiceError


class SparkDied(SluiceError):
    """The JVM or its Spark context has ended under the driver. The run dies; the next one takes over."""

    code = "spark_died"
    retriable = True
    next_step = "Look at the driver's stderr for the end of the JVM; too little memory is the usual cause"


ENDS_RUN = (SparkDied, EngineDoesNotFit, NoBundle)
