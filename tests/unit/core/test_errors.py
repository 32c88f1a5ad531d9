"""Errors carry facts and a next step, and cross process boundaries intact."""

import pickle

import pytest

from sluice import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SluiceError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_comes_out_of_a_pickle_as_it_went_in(kind):
    error = kind("It broke", next_step="Mend it", column="a", value=[1])
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.facts, copy.message, copy.next_step) == (
        kind,
        "It broke. Mend it",
        {"column": "a", "value": [1]},
        "It broke",
        "Mend it",
    )


def test_each_kind_has_its_own_code():
    assert len({kind.code for kind in KINDS}) == len(KINDS)


def test_an_error_ends_with_the_next_step_of_its_kind_or_its_own():
    assert str(errors.ChangeRefused("No")) == f"No. {errors.ChangeRefused.next_step}"
    assert str(errors.SluiceError("No")) == "No"
