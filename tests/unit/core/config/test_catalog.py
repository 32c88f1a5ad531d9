"""Names and partitions of the catalog by pattern and folder, and their settings in tables.yaml."""

import pytest

from sluice.catalog.partitions import values_of
from sluice.catalog.tables import names_of
from sluice.config.catalog import CatalogRule, catalog_names
from sluice.config.document import Configuration
from sluice.errors import InvalidConfiguration, UnexpectedPartition
from sluice_cli.config.source import read_tables
from sluice_cli.config.yaml_lines import ConfigurationMistakes


def rule_of(catalog, defaults=""):
    rule = f"{{topic: a.b, table: shop.orders, record_key: id, catalog: {catalog}}}"
    return read_tables(f"defaults: {{{defaults}}}\ntables:\n  - {rule}\n").rules[0].catalog


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("off", CatalogRule(sync=False)),
        ("on", CatalogRule()),
        ("{views: off}", CatalogRule(views=None)),
        ("{athena_native: true}", CatalogRule(athena_native=True)),
        ("{debezium: true}", CatalogRule(debezium=True)),
        (
            '{tables: "{table}", views: "{table}_now", database: "lake_{database}"}',
            CatalogRule(database="lake_{database}", tables="{table}", views="{table}_now"),
        ),
    ],
)
def test_tables_yaml_names_the_catalogs_tables_by_pattern(written, rule):
    assert rule_of(written) == rule


def test_a_rule_overrides_the_defaults_and_a_table_can_turn_the_sync_on_again():
    assert rule_of("{views: off}", 'catalog: {tables: "t_{table}"}') == CatalogRule(tables="t_{table}", views=None)
    assert rule_of("on", "catalog: off") == CatalogRule()


@pytest.mark.parametrize(
    ("written", "described"),
    [
        ("{tables: everything}", "must use {table}"),
        ('{tables: "{Table}"}', "lower-case letters"),
        ('{tables: "{table}"}', "is the name of the Hudi tables"),
        ("{table: x}", "must be off, or a mapping of database, tables, views and iceberg"),
        ("{views: 7}", "which is a pattern"),
        ("{athena_native: newest}", "athena_native, which is true or false"),
        ("{debezium: yes please}", "which is true or false"),
        ("{debezium: true, views: off}", "there are none"),
        ('{database: "a b"}', "lower-case letters"),
    ],
)
def test_a_pattern_with_no_name_or_one_name_for_two_tables_is_an_error_with_a_line(written, described):
    with pytest.raises(ConfigurationMistakes) as refused:
        rule_of(written)
    assert described in str(refused.value) and "3" in str(refused.value)


def test_a_configuration_without_a_catalog_section_keeps_its_version():
    rule = "tables:\n  - {topic: a.b, table: shop.orders, record_key: id%s}\n"
    assert "catalog" not in read_tables(rule % "").to_json()
    described = read_tables(rule % ", catalog: {views: off, athena_native: false}")
    restored = Configuration.from_json(described.to_json()).rules[0].catalog
    assert restored == CatalogRule(views=None, athena_native=False)
    assert described.table_for_topic("a.b").catalog.views is None


def test_a_name_longer_than_glue_takes_and_one_that_two_entries_share_are_refused():
    with pytest.raises(InvalidConfiguration, match="255"):
        catalog_names(CatalogRule(tables="{table}" * 3), "d", "t" * 100, merge_on_read=False)
    with pytest.raises(InvalidConfiguration, match="share"):
        catalog_names(CatalogRule(tables="{table}_ro", views="{table}_{table}"), "d", "ro", merge_on_read=False)


def test_an_iceberg_table_has_a_name_of_its_own_and_is_refused_over_logs():
    text = "tables:\n  - {topic: a.b, table: shop.orders, record_key: id, iceberg: true, table_type: %s}\n"
    config = read_tables(text % "cow").table_for_topic("a.b")
    assert config.iceberg and names_of(config).all == ("orders_all", "orders", "orders_iceberg")
    assert not names_of(read_tables(text.replace("true", "false") % "cow").table_for_topic("a.b")).iceberg
    with_history = read_tables(text.replace("true", "true, history: true") % "cow").table_for_topic("a.b")
    assert with_history.iceberg and not names_of(with_history.history_table).iceberg
    with pytest.raises(ConfigurationMistakes, match="iceberg: needs table_type: cow: Iceberg's readers don't merge"):
        read_tables(text % "mor")
    for pattern, wrong in (("{table}_all", "share"), ("ice", "must use")):
        with pytest.raises((InvalidConfiguration, ConfigurationMistakes), match=wrong):
            written = text.replace("iceberg: true", f"iceberg: true, catalog: {{iceberg: '{pattern}'}}") % "cow"
            names_of(read_tables(written).table_for_topic("a.b"))


def test_partition_values_are_those_of_the_folders_names_unescaped():
    assert values_of("t", "year=2024/city=C%2FD é%25", ("year", "city")) == ("2024", "C/D é%")
    for path in ("2024/city=x", "year=2024", "year=/city=x", "city=x/year=2024", ""):
        with pytest.raises(UnexpectedPartition):
            values_of("t", path, ("year", "city"))
