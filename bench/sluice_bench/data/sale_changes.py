"""Batches of changes to TICKIT's sales: 70 % updates, 20 % inserts, 10 % deletes, of evenly chosen rows."""

import random
from decimal import Decimal

from sluice_bench.data.debezium_objects import SNAPSHOT_TS_MS, key_only, object_bytes, record
from sluice_bench.data.tickit import Dataset
from sluice_bench.data.tickit_rows import row

TABLE = "sale"
SHARES = {"u": 0.7, "c": 0.2, "d": 0.1}
MS_PER_BATCH = 60_000


class SaleChanges:
    """Consecutive batches, each an object's bytes. The same dataset and seed give the same ones.

    No row changes twice in a batch.
    """

    def __init__(self, dataset: Dataset, changes: int) -> None:
        self._dataset = dataset
        self._operations = [op for op, share in SHARES.items() for _ in range(round(changes * share))]
        self._chosen = random.Random(f"{dataset.seed}/changes")
        self._living = list(range(1, dataset.sizes.sale + 1))
        self._last = dataset.sizes.sale
        self._change = self._batches = 0

    @property
    def living(self) -> int:
        """Rows that exist after the batches so far."""
        return len(self._living)

    def batch(self) -> bytes:
        """The next batch as one Avro object."""
        operations = self._chosen.sample(self._operations, len(self._operations))
        old = iter(self._chosen.sample(self._living, sum(op != "c" for op in operations)))
        self._batches += 1
        records, gone = [], set()
        for op in operations:
            self._change += 1
            if op == "c":
                self._last += 1
                self._living.append(self._last)
            number = self._last if op == "c" else next(old)
            values = row(TABLE, number, seed=self._dataset.seed, sizes=self._dataset.sizes)
            if op == "u":
                values |= self._sold_again()
            elif op == "d":
                gone.add(number)
                values = key_only(TABLE, values)
            records.append(
                record(TABLE, values, op=op, change=self._change, ts_ms=SNAPSHOT_TS_MS + self._batches * MS_PER_BATCH)
            )
        self._living = [number for number in self._living if number not in gone]
        return object_bytes(TABLE, records, self._dataset.codec)

    def _sold_again(self) -> dict[str, object]:
        """A sale with another quantity and price."""
        quantity = self._chosen.randint(1, 8)
        paid = Decimal(self._chosen.randrange(20, 2_500) * quantity * 100).scaleb(-2)
        return {"qtysold": quantity, "pricepaid": paid, "commission": (paid * 15 / 100).quantize(Decimal("0.01"))}
