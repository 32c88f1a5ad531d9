"""Java properties files are read as Java reads them."""

from sluice.hudi.java_properties import parse_properties


def test_properties_are_read_as_java_reads_them():
    text = "# c\n! c\na=1\nb : two words \nc three\nlong=x,\\\n   y\n\\u0061\\=b=v\\\\\n\nempty=\n"
    assert parse_properties(text) == {
        "a": "1",
        "b": "two words ",
        "c": "three",
        "long": "x,y",
        "a=b": "v\\",
        "empty": "",
    }
