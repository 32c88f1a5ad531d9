"""Errors carry facts and a next step, and cross process boundaries intact."""

import importlib
import pickle
import re

import pytest

from sluice import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SluiceError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_comes_out_of_a_pickle_as_it_went_in(kind):
    error = kind("It broke", next_step="Mend it", column="a", value=[1])
    copy = pickle.loads(pickle.dumps(error))
    expected = (kind, "It broke. Mend it", {"column": "a", "value": [1]}, "It broke", "Mend it")
    assert (type(copy), str(copy), copy.facts, copy.message, copy.next_step) == expected


def test_each_kind_has_its_own_code():
    kinds = [kind for kind in KINDS if "code" in vars(kind)]  # the others are bases
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_an_error_ends_with_the_next_step_of_its_kind_or_its_own():
    assert str(errors.ChangeRefused("No")) == f"No. {errors.ChangeRefused.next_step}"
    assert str(errors.SluiceError("No")) == "No"


@pytest.mark.parametrize("package", ["sluice", "sluice_formats", "sluice_aws", "sluice_spark"])
def test_a_retry_of_a_next_step_can_be_run_as_it_is_written(package):
    kinds = vars(importlib.import_module(f"{package}.errors")).values()
    for kind in (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, errors.SluiceError)):
        for retry in re.findall("`(sluice quarantine retry[^`]*)`", kind.next_step or ""):
            assert retry == f"sluice quarantine retry --code {kind.code}"
