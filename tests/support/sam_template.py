"""template.yaml, which takes long to read, once for all tests of a process. Change copies of it."""

from pathlib import Path

from sluice_deploy.template import read_template

TEMPLATE = read_template(Path(__file__).resolve().parents[2] / "template.yaml")
