"""The keys of what Sluice stores beside the tables."""

from sluice.silver_keys import error_key, error_prefix, manifest_key, outcome_key, schema_key


def test_everything_of_a_batch_lies_under_its_own_name():
    assert manifest_key("main", "b-1") == "_sluice/manifests/main/b-1.json"
    assert outcome_key("b-1", "shop.a") == "_sluice/outcomes/b-1/shop.a.json"
    assert error_key("b-1", "shop.a", "h").startswith(error_prefix("b-1", "shop.a"))
    assert schema_key("f") == "_sluice/schemas/f.avsc"
