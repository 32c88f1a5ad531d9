"""The job's role allows exactly what the driver's Python calls. `make test-job-permissions` tests the JVM's part."""

from functools import partial

import pytest
from driving.lane import LANE, SimulatedLane, configuration
from emulation.deployment import ARTIFACTS, BRONZE, LEDGER, REGION, SILVER, avro, key
from emulation.iam_enforcement import Role, enforced
from emulation.job_role import BY_OTHERS, UNSEEN, job_grants, job_names

from sluice.batch.outcome import ObjectError
from sluice.config.rules.snapshot import FOLDER, GENERATION, SnapshotRule
from sluice.config.rules.table_rule import TableRule
from sluice.lane.job_policy import job_run_policy, lane_prefixes
from sluice.ledger.keys import PENDING
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId
from sluice.services.requests import PURGE
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.s3.objects import Objects, files_beside
from sluice_spark.merge.set_aside import Aside

TABLE = "shop.orders"
IN_PYTHON = [grant for grant in job_grants() if grant not in {("WriteSilver", "s3:DeleteObject"), *UNSEEN, *BY_OTHERS}]


class Driven:
    """Runs of one lane under the job's role, with the fake merger: what others do beside them isn't bound by it."""

    def __init__(self, deployment, without):
        self.s3 = Objects(deployment.s3)
        configured = configuration(linger_s=2)
        deployment.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=configured.to_json().encode())
        self.simulated = SimulatedLane(deployment.dynamodb, configured, ledger_table=LEDGER)
        id = deployment.land(key(0), avro())
        etag = deployment.s3.head_object(Bucket=BRONZE, Key=id.key)["ETag"].strip('"')
        self.landed = [id, ObjectId(BRONZE, id.key, f"etag:{etag}")]
        self.simulated.merger.during[TABLE] = self._tasks
        places = {"bronze": BRONZE, "silver": SILVER, "artifacts": ARTIFACTS}
        names = job_names(deployment.application, region=REGION, ledger=LEDGER, **places)
        policy = job_run_policy(lane_prefixes(configured, LANE), lane=LANE, partition="aws", silver=SILVER)
        self.role = Role("JobRole", names, without, within=policy)
        self.deaths = []

    def _tasks(self):
        """What tasks and the merge ask of S3 in Python: objects as they are named, reasons left and found."""
        for landed in self.landed:
            self.s3.whole(landed)
        aside = Aside(self.s3, SILVER, "b", TABLE)
        aside.refuse(ObjectError("h", "corrupt", "on purpose"))
        aside.read()

    def run(self, **more):
        """One run from its start to its end or death, which supervise finds. `more` are ports of it."""
        identity = self.simulated.start()
        ports = {**more, "documents": ManifestStore(self.s3, SILVER), "file": ConfigStore(self.s3, ARTIFACTS)}
        try:
            with enforced(self.role):
                self.simulated.loop(identity, around=lambda name, port: ports.get(name, port)).run()
        except (Exception, KeyboardInterrupt) as death:
            self.deaths.append(death)
        self.simulated.lapse(identity)

    def said(self):
        """All that tells of a failure: what ended runs, and what the log has."""
        return f"{self.deaths} {self.simulated.out.getvalue()}"


def live(deployment, without=None):
    """A run that dies after it claimed, with a table that had failed before; the next takes its batch over, serves a
    purge, gives objects of a further table back, and goes on.
    """
    driven = Driven(deployment, without)
    simulated = driven.simulated
    simulated.put(TABLE, 2), simulated.put("shop.lines", 1)
    simulated.merger.before["shop.lines"].append(ValueError("the first time"))
    simulated.merger.before[TABLE].append(KeyboardInterrupt("killed"))
    driven.run()
    simulated.put("shop.items", 1)
    simulated.merger.before["shop.items"].append(ValueError("its objects are given back"))
    about = {"requested_by": "test", "now": simulated.clock.now_ms()}
    simulated.ledger.services.request(LANE, TABLE, PURGE, request="q", **about)
    driven.run()
    return driven


def test_a_driver_does_all_it_is_for_with_what_its_role_allows(deployment):
    driven = live(deployment)
    assert driven.role.denied == set() and [str(death) for death in driven.deaths] == ["killed"]
    assert driven.simulated.merger.calls.count(f"serve {TABLE} {PURGE}") == 1
    assert len(driven.simulated.tables.commits) == 2


@pytest.mark.parametrize("sid, action", IN_PYTHON)
@pytest.mark.long
def test_without_any_one_allowed_action_a_driver_fails_with_an_access_error(deployment, sid, action):
    driven = live(deployment, without=(sid, action))
    assert driven.role.denied == {action}
    assert "AccessDenied" in driven.said()


def dumping(deployment, without=None):
    """A run that claims the markers of a folder and of a generation."""
    rules = [
        TableRule(f"shop.{name}", ("id",), topic=name, key_pattern=f"{name}/.*", snapshot=SnapshotRule(name))
        for name in (FOLDER, GENERATION)
    ]
    driven = Driven(deployment, without)
    simulated = driven.simulated
    in_force = configuration(rules=rules, linger_s=2).to_json().encode()
    deployment.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=in_force)
    objects = Objects(deployment.s3)
    for name in (FOLDER, GENERATION):
        for file, form in (("a.csv", "csv"), ("_SUCCESS", "marker")):
            id = deployment.land(f"{name}/1/{file}", b"id\n1\n")
            at, modified_at = simulated.clock.now_ms(), objects.arrival(id)
            facts = {"table": f"shop.{name}", "lane": LANE, "topic": name, "format": form, "modified_at": modified_at}
            simulated.ledger.objects.admit(AdmittedObject(id, PENDING, at, size=5, **facts))
    simulated.ledger.lanes.wake(LANE)
    driven.run(files=partial(files_beside, objects))
    return driven


def test_a_driver_finds_out_whether_full_dumps_are_complete(deployment):
    driven = dumping(deployment)
    assert driven.role.denied == set() and not driven.deaths
    assert sum(len(objects) for _, _, objects in driven.simulated.tables.commits) == 4
    assert dumping(deployment, without=("FindWhatIsSetAside", "dynamodb:Query")).role.denied == {"dynamodb:Query"}
