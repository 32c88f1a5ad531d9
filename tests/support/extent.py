"""How much of a test runs: all of it with SLUICE_WHOLE=1, which `make test-all` sets, else a sample."""

import os

WHOLE = os.environ.get("SLUICE_WHOLE") == "1"
