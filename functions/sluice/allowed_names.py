"""Which names a table, a lane, a column and a topic can have."""

from __future__ import annotations

import re

# Lower-case names only: Glue folds case, and a name becomes an S3 path, a Hudi name and SQL.
NAME = re.compile(r"[a-z_][a-z0-9_]{0,127}")
LANE = re.compile(r"[a-z0-9-]{1,32}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")  # Avro's own rule for names
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule
