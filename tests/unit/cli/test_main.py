"""The `sluice` command as a whole."""

import json
import subprocess
import sys

LOADED_BY = """
import json, sys
from sluice_cli.main import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def test_help_loads_neither_arrow_nor_hudi_nor_duckdb():
    ended = subprocess.run(
        [sys.executable, "-c", LOADED_BY, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    found = json.loads(ended.stderr)
    assert found["code"] == 0 and "sluice_cli.main" in found["modules"]
    assert not {"duckdb", "hudi", "pyarrow", "pandas"}.intersection(found["modules"])
