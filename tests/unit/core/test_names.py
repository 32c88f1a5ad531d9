"""The known name that a mistyped one means."""

import pytest

from sluice.names import did_you_mean

TABLES = ("crm.user", "crm.user_history", "crm.city", "superuser")


@pytest.mark.parametrize(
    ("given", "names", "meant"),
    [
        pytest.param("crm.user_", TABLES, "crm.user_history", id="begins"),
        pytest.param("crm.us", TABLES, "crm.user", id="begins-shortest"),
        pytest.param("history", TABLES, "crm.user_history", id="contains"),
        pytest.param("email", ("emil", "customer_email_address"), "customer_email_address", id="contains-before-like"),
        pytest.param("user", ("superuser", "users_of_all_shops"), "users_of_all_shops", id="begins-before-contains"),
        pytest.param("CRM.City", TABLES, "crm.city", id="case"),
        pytest.param("crm.usr", TABLES, "crm.user", id="like"),
        pytest.param("größe", ("grosse", "gr_u00f6_u00dfe"), "gr_u00f6_u00dfe", id="as-stored"),
    ],
)
def test_a_mistyped_name_means_the_one_that_holds_it_else_the_closest(given, names, meant):
    assert did_you_mean(given, names) == f"; did you mean {meant}?"


@pytest.mark.parametrize(
    ("given", "names"),
    [("", TABLES), ("us", TABLES), ("shop.orders", TABLES), ("crm.user", ())],
    ids=["nothing", "too-short", "unlike", "none-known"],
)
def test_no_name_is_meant_where_none_is_like_it(given, names):
    assert did_you_mean(given, names) == ""
