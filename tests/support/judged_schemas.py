"""Writer schemas of one table with their verdicts, for tests of schema histories."""

from sluice.errors import Incompatible
from sluice.schema.avro import read_writer_schema
from sluice.schema.evolution import evolve, refused
from sluice.schema.history import seen
from support import builders

TABLE = "crm.user"
STORED = {
    "id": "bigint",
    "price": "decimal(18,4)",
    "gone": "string",
    "_sluice_position": "string",
    "__deleted": "boolean",
}


def flattened(**columns):
    return builders.flattened({name: ["null", kind] for name, kind in columns.items()})


def decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


OLD, NEW, BAD = (
    flattened(id="long", price=decimal(18, 4), gone="string"),
    flattened(id="long", price=decimal(24, 6), added="string"),
    flattened(id="long", price="string"),
)


def judged(schema, stored=STORED, at=1, batch="b-1"):
    writer = read_writer_schema(schema)
    try:
        evolution = evolve(stored, writer.row, record_key=("id",), partition_by=())
    except Incompatible as error:
        evolution = refused(error)
    return seen(TABLE, writer.fingerprint, writer.row, evolution, at=at, batch=batch)
