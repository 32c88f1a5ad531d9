"""reconcile, cut off in the middle: the listing is repeated from before the objects that weren't admitted."""

import pytest
from emulation.deployment import avro, context, key
from reconcile.handler import handler

from sluice_aws.admission import reconcile as reconciler
from sluice_aws.admission.admit import Admission
from sluice_aws.s3.objects import Objects

LONG = 400_000  # milliseconds: more than reconcile reserves


def test_a_pass_that_dies_before_it_admits_a_page_lists_it_again(deployment, monkeypatch):
    deployment.configure()
    ids = [deployment.land(key(n), avro()) for n in range(4)]
    page = Objects.version_page
    monkeypatch.setattr(
        Objects, "version_page", lambda self, bucket, marker=None: page(self, bucket, marker, page_size=2)
    )
    with monkeypatch.context() as dies:
        dies.setattr(Admission, "admit_all", lambda *given, **more: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            handler({}, context(LONG))
    assert deployment.ledger.history.checkpoint(reconciler.CHECKPOINT) is None
    assert handler({}, context(LONG))["admitted"] == 4
    assert {deployment.record(id).state for id in ids} == {"pending"}
