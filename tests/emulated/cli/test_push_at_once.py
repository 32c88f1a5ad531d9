"""`sluice config push` beside another push, and what is there when it is cut off."""

from unittest.mock import Mock

import pytest

from sluice_aws.s3.configuration import CONFIGURATION_KEY, HISTORY_PREFIX, ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_cli.config import push as pushing
from sluice_cli.main import run

T = "tables:\n  - {{topic: crm.public.user, table: crm.user, record_key: id, generation: {g}, freshness: {f}}}\n"
BUCKET = "s-artifacts"


@pytest.fixture
def files(stack, tmp_path, invoked, sluice):
    """A table with data, and three files that could be pushed."""
    by_name = {name: tmp_path / f"{name}.yaml" for name in ("first", "raise", "slower")}
    for path, generation, freshness in zip(by_name.values(), (0, 1, 0), ("1m", "1m", "10m"), strict=True):
        path.write_text(T.format(g=generation, f=freshness))
    sluice("config push", str(by_name["first"]))
    pinned = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "crm.public.user"}
    stack.ledger.tables.pin("crm.user", pinned)
    return by_name


def in_force(stack):
    return ConfigStore(Objects(stack.s3), BUCKET).load()


def pushed_meanwhile(monkeypatch, file):
    """Push `file` once another push has been planned."""
    whole, once = pushing._planned, [file]

    def planned(*given):
        plan = whole(*given)
        if once:
            assert run(["config", "push", str(once.pop()), "--yes"]) == 0
        return plan

    monkeypatch.setattr(pushing, "_planned", planned)


@pytest.mark.parametrize("own", ["slower", "first"], ids=["another file", "what was in force"])
def test_a_push_beside_another_one_is_refused(stack, files, monkeypatch, sluice, own):
    pushed_meanwhile(monkeypatch, files["raise"])
    assert "Another push came" in sluice("config push", str(files[own]), code=1).err
    assert in_force(stack).table_for_topic("crm.public.user").generation == 1
    sluice("config push", str(files[own]), code=2)  # what would lower the generation is asked about


def test_a_push_of_a_configuration_that_nobody_can_read_mends_it(stack, files, sluice):
    stack.s3.put_object(Bucket=BUCKET, Key=CONFIGURATION_KEY, Body=b"{")
    sluice("config push", str(files["slower"]), "--yes")
    assert in_force(stack).table_for_topic("crm.public.user").freshness_s == 600


def test_a_configuration_is_in_force_only_once_its_copy_is_kept(stack, files, monkeypatch, sluice):
    copies = set(Objects(stack.s3).keys(BUCKET, HISTORY_PREFIX))
    before = in_force(stack).version
    monkeypatch.setattr(Objects, "put", Mock(side_effect=OSError("the network is gone")))
    with pytest.raises(OSError):
        sluice("config push", str(files["slower"]), "--yes", code=None)
    assert (in_force(stack).version, set(Objects(stack.s3).keys(BUCKET, HISTORY_PREFIX))) == (before, copies)
