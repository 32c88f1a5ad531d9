"""A pass over the listing: what it may leave out, and what its checkpoint must remember."""

from __future__ import annotations

from sluice.admission.listing_pass import APPEARS_WITHIN_MS, ListingPass

GRACE, NOW = 900_000, 10**12


def whole(current: ListingPass, failed_at: int | None = None) -> ListingPass:
    """The pass that follows when this one reaches the end of the listing."""
    return ListingPass.resumed(current.behind(None, failed_at).stored(GRACE), NOW + 1)


def test_the_first_pass_asks_about_everything() -> None:
    assert ListingPass.resumed(None, NOW).is_due(0)


def test_a_pass_asks_about_what_may_have_appeared_since_the_last_one_began() -> None:
    following = whole(ListingPass.resumed(None, NOW))
    assert following.is_due(NOW - GRACE - APPEARS_WITHIN_MS)
    assert not following.is_due(NOW - GRACE - APPEARS_WITHIN_MS - 1)


def test_an_object_that_was_not_admitted_is_asked_about_until_it_is() -> None:
    early = NOW - 10 * APPEARS_WITHIN_MS
    following = whole(ListingPass.resumed(None, NOW), failed_at=early)
    assert following.is_due(early) and not following.is_due(early - 1)
    assert not whole(following).is_due(early)


def test_a_cut_off_pass_goes_on_with_its_own_beginning_and_failures() -> None:
    early = NOW - 10 * APPEARS_WITHIN_MS
    cut = ListingPass.resumed({"since": 5}, NOW).behind(("k", "v"), early).behind(("l", "w"), None)
    assert ListingPass.resumed(cut.stored(GRACE), NOW + 99) == cut
    assert whole(cut).since == early
