"""The StartJobRun request is complete, explicit, valid by AWS's service model, and safely quoted."""

import json
from dataclasses import replace

import botocore.session
import pytest
from botocore.validate import ParamValidator
from support.builders import JOB_ENVIRONMENT
from support.trial_reports import TRIAL

from sluice.config.lane import LaneConfig
from sluice.errors import UnusableRequest
from sluice.lane.job_policy import Scope
from sluice.lane.job_request import execution_timeout_min, run_age_s, start_job_run, start_trial
from sluice_aws.settings import Settings

RUN = "run-main-20240501T100000Z-0a1b2c3d"
# The shape that AWS's model and its guide to Spark jobs give, with this project's choices.
DERIVED_KEYS = set(
    "applicationId clientToken name executionRoleArn executionTimeoutMinutes mode retryPolicy tags jobDriver "
    "configurationOverrides executionIamPolicy".split()
)
DERIVED_SETTINGS = set(
    """spark.jars spark.archives spark.emr-serverless.driverEnv.PYTHONPATH spark.executorEnv.PYTHONPATH
    spark.serializer spark.driver.cores spark.driver.memory spark.executor.cores spark.executor.memory
    spark.dynamicAllocation.initialExecutors spark.dynamicAllocation.minExecutors
    spark.dynamicAllocation.maxExecutors spark.dynamicAllocation.executorIdleTimeout""".split()
)


DEFAULT_LANE = LaneConfig()


def request(lane=DEFAULT_LANE, environment=JOB_ENVIRONMENT):
    return start_job_run(environment, lane, RUN)


def settings(body):
    words = body["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"].split(" ")
    assert words[::2] == ["--conf"] * (len(words) // 2)
    return dict(word.split("=", 1) for word in words[1::2])


def shape():
    return botocore.session.get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape


def test_the_request_is_valid_by_the_model_that_botocore_validates_with():
    report = ParamValidator().validate(request(), shape())
    assert not report.has_errors(), report.generate_report()


def test_the_request_has_every_part_of_the_derived_sample():
    body = request()
    assert set(body) == DERIVED_KEYS
    assert DERIVED_SETTINGS <= set(settings(body))
    assert body["configurationOverrides"]["monitoringConfiguration"] == {
        "s3MonitoringConfiguration": {"logUri": "s3://artifacts/logs/"},
        "managedPersistenceMonitoringConfiguration": {"enabled": True},
        "cloudWatchLoggingConfiguration": {"enabled": False},
    }


def test_the_run_id_is_token_name_and_tag():
    body = request()
    assert (body["clientToken"], body["name"], body["tags"]) == (RUN, RUN, {"sluice:lane": "main", "sluice:run": RUN})


def test_the_whole_run_fits_a_new_accounts_sixteen_vcpus():
    summary = settings(request())
    driver, executor = int(summary["spark.driver.cores"]), int(summary["spark.executor.cores"])
    most, fewest = (summary[f"spark.dynamicAllocation.{name}Executors"] for name in ("max", "min"))
    assert (driver, executor, most, fewest) == (2, 2, "5", "1") and driver + executor * int(most) <= 16


@pytest.mark.parametrize("linger_s", [0, 60, 600])
def test_executors_stay_longer_than_a_run_lingers(linger_s):
    idle = settings(request(LaneConfig(linger_s=linger_s)))["spark.dynamicAllocation.executorIdleTimeout"]
    assert int(idle.rstrip("s")) > linger_s


@pytest.mark.parametrize("least, most", [(0, 5), (1, 1), (1, 2), (4, 9)])
def test_a_run_begins_with_no_executor_that_its_lane_does_not_keep(least, most):
    summary = settings(request(LaneConfig(min_executors=least, max_executors=most)))
    # As in Spark's Utils.getDynamicAllocationInitialExecutors, with EMR Serverless's defaults.
    # https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html
    by_default = {"spark.executor.instances": "3", "spark.dynamicAllocation.initialExecutors": "3"}
    names = (*by_default, "spark.dynamicAllocation.minExecutors")
    assert max(int({**by_default, **summary}[name]) for name in names) == least


def test_executors_of_a_past_shuffle_are_let_go_while_the_run_stays():
    summary = settings(request())
    assert summary["spark.cleaner.periodicGC.interval"] == "5min"
    # A time-out for shuffles is also that of executors with persisted rows, which Hudi would write again.
    assert not {name for name in summary if "shuffleTracking" in name or "cachedExecutor" in name}


def test_the_time_out_holds_the_maximum_age_the_longest_batch_and_a_margin():
    assert execution_timeout_min(LaneConfig()) == 240 + 60 + 15
    assert request()["executionTimeoutMinutes"] == 315
    assert execution_timeout_min(LaneConfig(max_age_s=61)) == 2 + 60 + 15


def test_the_longest_run_ends_by_itself_within_the_longest_time_out_that_emr_takes():
    longest = LaneConfig(max_age_s=7 * 86_400)
    assert execution_timeout_min(longest) == 7 * 1440 and run_age_s(longest) == (7 * 1440 - 60 - 15) * 60
    assert run_age_s(LaneConfig(max_age_s=6 * 86_400)) == 6 * 86_400


def test_emr_never_repeats_an_attempt():
    assert request()["retryPolicy"] == {"maxAttempts": 1}


def test_code_and_environment_come_from_the_release():
    body = request()
    summary = settings(body)
    assert body["jobDriver"]["sparkSubmit"]["entryPoint"] == "s3://artifacts/releases/abc123/ingest.py"
    assert summary["spark.submit.pyFiles"] == "s3://artifacts/releases/abc123/sluice.zip"
    assert summary["spark.archives"] == "s3://artifacts/releases/abc123/environment-x86_64.tar.gz#environment"
    for worker in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert summary[f"{worker}.PYTHONPATH"] == "./environment" and summary[f"{worker}.LOG4J_DISABLE_JMX"] == "true"
    of_arm = settings(request(environment=replace(JOB_ENVIRONMENT, architecture="ARM64")))
    assert of_arm["spark.archives"].endswith("environment-arm64.tar.gz#environment")


def test_the_clock_of_every_process_is_utc():
    summary = settings(request())
    assert summary["spark.sql.session.timeZone"] == "UTC"
    options = [summary[f"spark.{who}.extraJavaOptions"] for who in ("driver", "executor")]
    assert options == ["-Duser.timezone=UTC"] * 2


def test_serverless_storage_stays_off():
    assert "serverlessstorage" not in str(request()).lower()


def test_the_driver_gets_its_lane_run_and_names():
    arguments = request()["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    assert dict(zip(arguments[::2], arguments[1::2])) == {
        **{"--lane": "main", "--run": RUN, "--region": "us-east-1", "--ledger": "ledger"},
        **{"--silver": "silver", "--artifacts": "artifacts", "--bronze": "bronze"},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"hudi_jars": "a.jar --conf spark.x=y"},
        {"hudi_jars": "a.jar'"},
        {"hudi_jars": ""},
        {"release": ""},
        {"artifact_bucket": "a b"},
        {"architecture": "sparc"},
    ],
    ids=str,
)
def test_a_name_that_could_become_a_second_option_is_refused(changes):
    with pytest.raises(UnusableRequest):
        request(environment=replace(JOB_ENVIRONMENT, **changes))


@pytest.mark.parametrize("run_id", ["", "a b", "x" * 65, "run/1"])
def test_a_run_id_that_emr_would_refuse_is_refused_first(run_id):
    with pytest.raises(UnusableRequest):
        start_job_run(JOB_ENVIRONMENT, LaneConfig(), run_id)


def test_a_run_is_limited_to_its_scope_and_knows_its_name():
    body = start_job_run(JOB_ENVIRONMENT, LaneConfig(), RUN, Scope("0123abcd", ("shop/orders",)))
    assert body["jobDriver"]["sparkSubmit"]["entryPointArguments"][-2:] == ["--scope", "0123abcd"]
    statements = json.loads(body["executionIamPolicy"]["policy"])["Statement"]
    assert "arn:aws:s3:::silver/shop/orders/*" in statements[2]["Resource"]
    in_china = replace(JOB_ENVIRONMENT, job_role_arn="arn:aws-cn:iam::123456789012:role/j")
    assert "arn:aws-cn:s3:::silver" in request(environment=in_china)["executionIamPolicy"]["policy"]


KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_the_customers_key_encrypts_logs_and_disks_of_a_run_and_of_a_trial():
    environment = replace(JOB_ENVIRONMENT, key_arn=KEY)
    for body in (request(environment=environment), start_trial(environment, TRIAL)):
        overrides = body["configurationOverrides"]
        assert overrides["diskEncryptionConfiguration"] == {"encryptionKeyArn": KEY}
        monitoring = overrides["monitoringConfiguration"]
        assert monitoring["managedPersistenceMonitoringConfiguration"] == {"enabled": True, "encryptionKeyArn": KEY}
        assert monitoring["s3MonitoringConfiguration"]["encryptionKeyArn"] == KEY
        assert not ParamValidator().validate(body, shape()).has_errors()


def test_without_a_key_emr_encrypts_with_its_own():
    assert "encryptionKeyArn" not in json.dumps(start_job_run(JOB_ENVIRONMENT, LaneConfig(), RUN))


def test_tags_of_the_deployment_stand_beside_sluices_own():
    settings = Settings.from_env({"STACK_NAME": "s", "JOB_RUN_TAGS": "team=data,cost-center=4=2"})
    environment = replace(JOB_ENVIRONMENT, stack=settings.stack, tags=settings.tags)
    given = {"team": "data", "cost-center": "4=2", "sluice:stack": "s"}
    assert start_job_run(environment, LaneConfig(), RUN)["tags"] == {**given, "sluice:lane": "main", "sluice:run": RUN}
    assert start_trial(environment, TRIAL)["tags"] == {**given, "sluice:trial": TRIAL}
    assert Settings.from_env({}).tags == ()


@pytest.mark.parametrize("given, encrypts", [("true", True), ("false", False)])
def test_workers_encrypt_their_traffic_where_the_deployment_says_so(given, encrypts):
    settings = Settings.from_env({"ENCRYPT_TRAFFIC": given})
    environment = replace(JOB_ENVIRONMENT, encrypts_traffic=settings.encrypts_traffic)
    submitted = start_job_run(environment, LaneConfig(), RUN)["jobDriver"]["sparkSubmit"]["sparkSubmitParameters"]
    assert ("--conf spark.ssl.internode.enabled=true" in submitted) is encrypts


def test_job_runs_carry_the_stacks_name_as_a_tag():
    environment = replace(JOB_ENVIRONMENT, stack="sluice-dev")
    for body in (start_job_run(environment, LaneConfig(), RUN), start_trial(environment, TRIAL)):
        assert body["tags"]["sluice:stack"] == "sluice-dev"
