"""Java properties files are read as Java reads them."""

from sluice.hudi.java_properties import parse_properties


def test_properties_are_read_as_java_reads_them():
    text = "# c\n! c\na=1\nb : two words \nc three\nlong=x,\\\n   y\n\\u0061\\=b=v\\\\\n\nempty=\n"
    expected = {"a": "1", "b": "two words ", "c": "three", "long": "x,y", "a=b": "v\\", "empty": ""}
    assert parse_properties(text) == expected


def test_lines_end_as_in_java_and_nowhere_else():
    assert parse_properties("a=1\r\nb=x\u2028y\rc=2") == {"a": "1", "b": "x\u2028y", "c": "2"}


def test_a_table_property_keeps_the_characters_that_java_escapes():
    text = '#Updated at 2024-01-01T00:00:00Z\nhoodie.table.create.schema={"type"\\:"record"}\nsluice.widened={}\n'
    assert parse_properties(text) == {"hoodie.table.create.schema": '{"type":"record"}', "sluice.widened": "{}"}
