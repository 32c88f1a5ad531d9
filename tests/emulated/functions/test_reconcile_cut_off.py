"""reconcile, cut off in the middle: the listing is repeated from before the objects that weren't admitted."""

from functools import partialmethod
from unittest.mock import Mock

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
    monkeypatch.setattr(Objects, "version_page", partialmethod(Objects.version_page, page_size=2))
    with monkeypatch.context() as dies:
        dies.setattr(Admission, "admit_all", Mock(side_effect=SystemExit))
        with pytest.raises(SystemExit):
            handler({}, context(LONG))
    assert deployment.ledger.history.checkpoint(reconciler.CHECKPOINT) is None
    assert handler({}, context(LONG))["admitted"] == 4
    assert {deployment.record(id).state for id in ids} == {"pending"}
