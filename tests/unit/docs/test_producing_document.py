"""docs/producing.md recommends only settings of the recorded connectors."""

import json
import re
from pathlib import Path

from sluice.changes.position import NO_POSITION
from sluice.config.key_pattern import KEY_PATTERN
from sluice_cli.config.source import read_tables

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "producing.md").read_text(encoding="utf-8")
RECORDED = [json.loads(path.read_text()) for path in sorted((ROOT / "tests" / "data").glob("*/config/*.json"))]


def test_every_block_of_settings_is_part_of_a_recorded_connectors_configuration():
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DOCUMENT, re.S)]
    assert len(blocks) == 3
    for block in blocks:
        recorded = [config for config in RECORDED if config["connector.class"] == block["connector.class"]]
        assert {name for name in block if not any(config.get(name) == block[name] for config in recorded)} == set()


def test_the_positions_that_connectors_must_add_are_those_that_the_advice_names():
    positions = re.findall(r"([a-z_.]+(?:,[a-z_.]+)+|lsn)(?=[;)])", NO_POSITION)
    assert len(positions) == 5 and all(f"`{fields}`" in DOCUMENT for fields in positions)


def test_the_rules_for_debezium_take_a_table_with_a_key_of_its_own_first():
    block = DOCUMENT[DOCUMENT.index("```yaml") :].split("```")[1].removeprefix("yaml\n")
    user, sale = (read_tables(block).table_for_topic(topic) for topic in ("tickit.crm.user", "tickit.ecomm.sale"))
    assert (user.table, user.record_key) == ("crm.user", ("userid",))
    assert (sale.table, sale.record_key, sale.position) == ("ecomm.sale", ("id",), None)


def test_the_rule_for_aws_dms_makes_a_table_of_each_topic():
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.S)
    rules = [read_tables(block) for block in blocks if "tables:" in block]
    (film,) = filter(None, (rule.table_for_topic("public.film") for rule in rules))
    assert (film.table, film.record_key, film.position) == ("shop.film", ("film_id",), "transact_seq")
    assert film.delete_when.is_deletion("D") and not film.delete_when.is_deletion("U")


def test_the_patterns_of_other_layouts_are_accepted():
    section = DOCUMENT[DOCUMENT.index("## Any other layout") : DOCUMENT.index("## Full dumps")]
    cells = [line.split(" | ")[2].split("`")[1] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(cells) == 5
    for pattern in cells:
        assert KEY_PATTERN.parse(pattern) == pattern
