"""`sluice config push` beside another push, and what is there when it is cut off."""

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
    named = {}
    for name, generation, freshness in (("first", 0, "1m"), ("raise", 1, "1m"), ("slower", 0, "10m")):
        named[name] = tmp_path / f"{name}.yaml"
        named[name].write_text(T.format(g=generation, f=freshness))
    sluice("config push", str(named["first"]))
    pinned = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "crm.public.user"}
    stack.ledger.tables.pin("crm.user", pinned)
    return named


def in_force(stack):
    return ConfigStore(Objects(stack.s3), BUCKET).load()


def pushed_meanwhile(monkeypatch, file):
    """Push `file` once another push has been planned."""
    whole, once = pushing._planned, [file]

    def planned(*given):
        found = whole(*given)
        if once:
            assert run(["config", "push", str(once.pop()), "--yes"]) == 0
        return found

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
    kept = set(Objects(stack.s3).keys(BUCKET, HISTORY_PREFIX))
    before = in_force(stack).version

    def unwritable(*given, **named):
        raise OSError("the network is gone")

    monkeypatch.setattr(Objects, "put", unwritable)
    with pytest.raises(OSError):
        sluice("config push", str(files["slower"]), "--yes", code=None)
    assert (in_force(stack).version, set(Objects(stack.s3).keys(BUCKET, HISTORY_PREFIX))) == (before, kept)
