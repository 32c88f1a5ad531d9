"""The demonstration's change objects follow the bundled ones in the real form, and its cost line shows the bill."""

import io
import signal
from pathlib import Path

import fastavro
import pytest

from sluice.admission.routing import classify
from sluice.schema.avro import read_writer_schema
from sluice_cli.local.demo_changes import ChangeWriter
from sluice_cli.local.progress import interruptible

BRONZE = Path(__file__).resolve().parents[3] / "data" / "tickit_small" / "bronze"


def test_a_made_change_is_later_than_every_bundled_one_and_has_the_newest_schema():
    writer = ChangeWriter(BRONZE, "tickit.ecomm.sale", "salesid")
    row = writer.living_row()
    made = [writer.change(row, op="u", qtysold=7), writer.change(row, op="d")]
    names = [classify(key, len(body)) for key, body in made]
    bundled = sorted(BRONZE.rglob("tickit.ecomm.sale+*.avro"))
    newest = fastavro.reader(bundled[-1].open("rb"))
    rows = [record for path in bundled for record in fastavro.reader(path.open("rb"))]
    expected = [("tickit.ecomm.sale", names[0].offset), ("tickit.ecomm.sale", names[0].offset + 1)]
    assert [(name.topic, name.offset) for name in names] == expected
    assert names[0].offset == classify(bundled[-1].name, 1).offset + len(list(newest))
    actual = [fastavro.reader(io.BytesIO(body)) for _, body in made]
    assert {reader.writer_schema["name"] for reader in actual} == {newest.writer_schema["name"]}
    assert read_writer_schema(actual[0].writer_schema).row == read_writer_schema(newest.writer_schema).row
    (changed,), (deleted,) = (list(reader) for reader in actual)
    assert (changed["qtysold"], changed["__op"], deleted["__op"], deleted["__deleted"]) == (7, "u", "d", "true")
    assert max(record["__pos"] for record in rows) < changed["__pos"] < deleted["__pos"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_interrupts_the_demonstration_so_that_its_stack_ends(number):
    before = signal.signal(number, lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible() as interrupted:
            signal.raise_signal(number)
        assert interrupted
    finally:
        signal.signal(number, before)
