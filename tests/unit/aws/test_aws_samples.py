"""Events are parsed as AWS's samples mean them, and the local stack's imitations fit the service models."""

import json
import re
from dataclasses import replace
from pathlib import Path

import botocore.session
import pytest
from botocore.validate import ParamValidator
from support.builders import JOB_ENVIRONMENT

from sluice.admission.notices import parse_body
from sluice.admission.sqs_event import open_inbox
from sluice.config.lane import LaneConfig
from sluice.lane.job_policy import Scope
from sluice.lane.job_request import start_job_run
from sluice.lane.supervision import finally_billed, read_event
from sluice.objects import ObjectId
from sluice_local.emr.service import Service
from sluice_local.emr.stand_in import state_change

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "aws"
STATE_CHANGES = sorted(SAMPLES.glob("emr-job-run-state-change.*.json"))
RUN, SCOPE = "run-main-20240501T100000Z-0a1b2c3d", Scope("0123abcd", ("shop/orders",))
REQUEST = start_job_run(JOB_ENVIRONMENT, LaneConfig(), RUN, SCOPE)
PUT = ObjectId("amzn-s3-demo-bucket", "HappyFace.jpg", "096fKKXTRTtl3on89fVO.nfljtsv6qko")
UNVERSIONED = replace(PUT, version="etag:d41d8cd98f00b204e9800998ecf8427e")
FLOWER = "topics/a b/red flower + 100% é.avro"
EVENT = ObjectId("amzn-s3-demo-bucket1", "example-key", "IYV3p45BT0ac8hjHg1houSdS1a.Mro8e")


def sample(name):
    return json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))


# ---- events


@pytest.mark.parametrize(
    "name, id, size, event_name",
    [
        ("s3-notification-put.documented", PUT, 1024, "ObjectCreated:Put"),
        ("s3-notification-unversioned.derived", UNVERSIONED, 1024, "ObjectCreated:Put"),
        (
            "s3-notification-multipart-encoded-key.derived",
            replace(PUT, bucket="sluice-bronze-111122223333-us-west-2", key=FLOWER),
            *(10_485_760, "ObjectCreated:CompleteMultipartUpload"),
        ),
        ("s3-eventbridge-object-created.documented", EVENT, 5, "Object Created:PutObject"),
        (
            "s3-eventbridge-object-created-special-key.derived",
            replace(EVENT, key=FLOWER),
            *(5, "Object Created:CompleteMultipartUpload"),
        ),
    ],
)
def test_a_sample_names_its_object_and_every_fact_about_it(name, id, size, event_name):
    parsed = parse_body(json.dumps(sample(name)))
    (notice,) = parsed.notices
    sequencer = "617f08299329d189" if "eventbridge" in name else "0055AED6DCD90281E5"
    expected = (id, size, sequencer, event_name, ())
    assert (notice.id, notice.size, notice.sequencer, notice.event_name, parsed.ignored) == expected
    assert notice.event_time_ms is not None and notice.etag


@pytest.mark.parametrize(
    "name, id, via",
    [
        ("lambda-sqs-s3-put.derived", PUT, "s3"),
        ("lambda-sqs-sns-s3-put.derived", PUT, "sns"),
        ("lambda-sqs-eventbridge-object-created.derived", EVENT, "eventbridge"),
    ],
)
def test_a_sample_as_lambda_gets_it_from_the_queue_names_the_same_object(name, id, via):
    inbox = open_inbox(sample(name))
    (notice,) = inbox.notices
    assert (notice.id, notice.via) == (id, via)


@pytest.mark.parametrize("name", ["s3-test-event.documented", "lambda-sqs-s3-test-event.derived"])
def test_the_test_event_of_the_sample_is_ignored_by_its_name(name):
    message = sample(name)
    body = message["Records"][0]["body"] if "Records" in message else json.dumps(message)
    assert [ignored.reason for ignored in parse_body(body).ignored] == ["test_event"]


# ---- the stand-in for EMR Serverless


class NeverLaunched:
    """Runs nothing: what the service says of a run is what matters here."""

    def launch(self, run):
        pass


def service():
    said, place = [], {"account": "123456789012", "region": "us-east-1"}

    def changed(run, previous):
        said.append(state_change(run, previous, **place))

    made = Service(lambda service: NeverLaunched(), changed=changed, **place)
    request = {"name": "sluice", "releaseLabel": "emr-7.14.0", "type": "SPARK", "architecture": "ARM64"}
    return made, made.create_application({**request, "clientToken": "t"})["applicationId"], said


def form(value):
    """The structure of a value, and of each text its form: runs of digits and of letters by what they are."""
    if isinstance(value, dict):
        return {name: form(below) for name, below in value.items()}
    if isinstance(value, list):
        return [form(below) for below in value]
    if not isinstance(value, str):
        return type(value).__name__
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", value):
        return "time of microseconds" if "." in value else "time of seconds"
    value = re.sub(r"00f[0-9a-v]{13}", "ID", value)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", value)


@pytest.mark.parametrize("path", STATE_CHANGES, ids=lambda path: path.name.split(".")[1])
def test_the_stand_ins_state_change_has_the_form_of_the_sample(path):
    wanted = json.loads(path.read_text(encoding="utf-8"))
    emulated, application, said = service()
    run = emulated.start_job_run(application, {**REQUEST, "applicationId": application})["jobRunId"]
    (started,) = emulated.active_runs()
    started.state = wanted["detail"]["previousState"]
    assert emulated.move(started, wanted["detail"]["state"])
    (event,) = said
    assert event["detail"]["jobRunId"] == run
    for summary in (event, wanted):
        summary["detail"].update(createdBy="somebody", releaseLabel="emr")  # who and on what differ
    assert form(event) == form(wanted)


def model():
    return botocore.session.get_session().get_service_model("emr-serverless")


def beyond(shape, value, path=""):
    """What of a value AWS's model doesn't allow: members that it doesn't have, that are missing, of another type; texts
    outside of its lists, patterns and lengths.
    """
    if shape.type_name == "structure":
        yield from (f"{path}.{name} is unknown" for name in set(value) - set(shape.members))
        yield from (f"{path}.{name} is missing" for name in set(shape.required_members) - set(value))
        for name in set(value) & set(shape.members):
            yield from beyond(shape.members[name], value[name], f"{path}.{name}")
    elif shape.type_name == "list":
        for below in value:
            yield from beyond(shape.member, below, f"{path}[]")
    elif shape.type_name == "map":
        for key, below in value.items():
            yield from (*beyond(shape.key, key, f"{path}{{}}"), *beyond(shape.value, below, f"{path}.{key}"))
    elif shape.type_name == "string":
        pattern, limits = shape.metadata.get("pattern"), shape.metadata
        if shape.enum and value not in shape.enum:
            yield f"{path} is {value!r}, and none of {shape.enum}"
        if (
            pattern
            and not re.fullmatch(pattern, value, re.DOTALL)
            or not limits.get("min", 0) <= len(value) <= limits.get("max", len(value))
        ):
            yield f"{path} is {value!r}, which is not {limits}"
    elif shape.type_name == "timestamp":
        if not isinstance(value, float):
            yield f"{path} is no time in seconds"


def refused(operation, value, *, answer=False):
    shape = getattr(model().operation_model(operation), "output_shape" if answer else "input_shape")
    report = ParamValidator().validate(value, shape)
    return [*(report.generate_report().splitlines() if report.has_errors() else ()), *beyond(shape, value)]


def test_only_the_final_resource_update_of_a_job_run_reports_its_bill():
    event = sample("emr-job-resource-utilization-update.documented")
    assert finally_billed(event) == "00f1cbn5g4bb0c01" and read_event(event) is None
    assert finally_billed({**event, "detail": {**event["detail"], "resourceUtilizationFinal": False}}) is None
    assert finally_billed(json.loads(STATE_CHANGES[0].read_text(encoding="utf-8"))) is None


@pytest.mark.parametrize("state, details", [("RUNNING", ""), ("FAILED", "the driver ended with status 1" * 40)])
def test_the_stand_ins_answers_fit_the_service_model(state, details):
    emulated, application, _ = service()
    run = emulated.start_job_run(application, {**REQUEST, "applicationId": application})
    assert refused("StartJobRun", run, answer=True) == []
    (started,) = emulated.active_runs()
    emulated.move(started, state, details)
    page = {"states": [], "created_after": "", "created_before": "", "most": 50, "token": ""}
    answers = {
        "GetJobRun": emulated.get_job_run(application, started.id),
        "GetApplication": emulated.get_application(application),
        "ListApplications": emulated.list_applications(states=[]),
        "ListJobRuns": emulated.list_job_runs(application, **page),
    }
    refusals = {operation: refused(operation, answer, answer=True) for operation, answer in answers.items()}
    assert refusals == dict.fromkeys(answers, [])


# ---- what is asked for


def names(value, path=""):
    """Every member of a structure by its path."""
    return (
        {below for name, item in value.items() for below in (f"{path}{name}", *names(item, f"{path}{name}."))}
        if isinstance(value, dict)
        else set()
    )


def settings(request):
    words = request["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"].split()
    return {word.partition("=")[0] for word in words if word != "--conf"}


def test_start_job_run_has_every_member_of_the_sample_and_fits_the_service_model():
    wanted = sample("start-job-run-request.derived")
    assert names(wanted) - names(REQUEST) == set() and settings(wanted) - settings(REQUEST) == set()
    assert names(REQUEST) - names(wanted) == {"executionIamPolicy", "executionIamPolicy.policy"}
    asked, made = (request["jobDriver"]["sparkSubmit"]["entryPointArguments"] for request in (wanted, REQUEST))
    assert asked[::2] == made[:6:2]
    assert refused("StartJobRun", REQUEST) == []
    wrong = {**REQUEST, "name": " ", "mode": "LATER", "clientToken": "a b", "nmae": "x"}
    assert refused("StartJobRun", wrong), "the comparison finds what is wrong"
