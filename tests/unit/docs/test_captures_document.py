"""docs/captures.md shows the samples that the tests read, and what comes of them."""

from tools.captures import PAGE, page


def test_the_table_of_samples_is_that_of_the_tests():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run make documents"
