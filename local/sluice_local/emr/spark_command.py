"""The command and the environment of a job's driver: the request's own, with a laptop's settings added."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice_local.emr.submission import Submission
from sluice_local.emr.work_directory import Fetched
from sluice_local.images.spark import MAIN_CLASS, MODULE_OPTIONS, SparkImage, join

# The services that a driver of Sluice calls. A job without a VPC also reaches Glue and Lake Formation (EMR Serverless
# User Guide, "Configuring VPC access"), which no driver needs.
REACHABLE = ("S3", "DYNAMODB", "STS", "KMS", "CLOUDWATCH_LOGS", "SECRETS_MANAGER")
# Listed, so that the error names the service's call. The proxy refuses the address of every other service.
REFUSED = ("EVENTBRIDGE", "SQS", "SNS", "LAMBDA", "CLOUDWATCH", "EMR_SERVERLESS", "SFN", "GLUE", "LAKEFORMATION", "SSM")
_NOWHERE_HOST, _NOWHERE_PORT = "127.0.0.1", "9"  # the discard port refuses connections at once
_NOWHERE = f"http://{_NOWHERE_HOST}:{_NOWHERE_PORT}"
# Sizes and scaling of workers, which a laptop doesn't have. The driver's are translated.
_CLOUD_ONLY = re.compile(
    r"^spark\.(emr-serverless\.|dynamicAllocation\.|executor\.(cores|memory|memoryOverhead|instances|disk)"
    r"|driver\.(cores|memory|disk)|master$|submit\.deployMode)"
)
_UNIT = {"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"^(\d+)([kmgt]?)b?$", re.IGNORECASE)


@dataclass(frozen=True)
class Cloud:
    """The emulated AWS: one endpoint for every service, and credentials."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str


# A run lives for about a minute on two cores, which it shares with the emulator and the Python workers. The code of
# the first compiler is fast enough then; the second compiler and a parallel collector cost more than they gain
# (docs/decisions). With the first compiler alone the JVM reserves 48 MB for compiled code, instead of 240 MB. Spark's
# generated classes fill that within minutes: in a run of 20 minutes the code sweeper took 40 % of the processor time.
JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:-UsePerfData")


# Where executors are started from has no build folders, by which Spark else finds out its version of Scala.
SCALA = {"SPARK_SCALA_VERSION": "2.12"}


@dataclass(frozen=True)
class Machine:
    """The share of this machine that a job may use."""

    cores: int = 2  # of each executor, where there are any
    memory_bytes: int = 4 << 30  # the largest heap, even if the request asks for more
    executors: int = 0  # processes for the tasks; without them tasks run in the driver's JVM
    jvm_options: tuple[str, ...] = JVM_OPTIONS


@dataclass(frozen=True)
class Command:
    """A driver to start."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def spark_command(
    submission: Submission,
    fetched: Fetched,
    *,
    run: str,
    directory: Path,
    image: SparkImage,
    cloud: Cloud,
    machine: Machine,
    sharing: list[str],
) -> Command:
    """Start spark-submit's main class directly: its shell script starts a second JVM only to print this command."""
    settings = {key: value for key, value in submission.settings.items() if not _CLOUD_ONLY.match(key)}
    extra = settings.pop("spark.driver.extraJavaOptions", "").split()
    settings.update(_laptop_settings(run, directory, machine))
    settings.update(_file_system_settings(cloud, directory))
    heap = min(size_bytes(submission.settings.get("spark.driver.memory", "2g")), machine.memory_bytes) >> 20
    if machine.executors:
        settings.update(_executor_settings(settings, fetched, directory, image, machine, heap_mb=heap))
    arguments = [
        str(image.java.binary),
        f"-Xmx{heap}m",
        f"-Xms{min(heap, 512)}m",
        *machine.jvm_options,
        *sharing,
        *MODULE_OPTIONS,
        f"-Dlog4j2.configurationFile={image.logging.as_uri()}",
        f"-Djava.io.tmpdir={directory / 'tmp'}",
        f"-Dderby.system.home={directory / 'tmp'}",
        f"-Dhttps.proxyHost={_NOWHERE_HOST}",
        f"-Dhttps.proxyPort={_NOWHERE_PORT}",
        "-Duser.timezone=UTC",
        *extra,
        "-cp",
        join(image.class_path(fetched.jars)),
        MAIN_CLASS,
    ]
    for key in sorted(settings):
        arguments += ["--conf", f"{key}={settings[key]}"]
    if fetched.py_files:
        arguments += ["--py-files", ",".join(str(path) for path in fetched.py_files)]
    if fetched.files:
        arguments += ["--files", ",".join(str(path) for path in fetched.files)]
    return Command(
        (*arguments, str(fetched.entry_point), *submission.arguments),
        {
            **_environment(submission, run, directory, image, cloud),
            **({"SPARK_HOME": str(_spark_home(directory, image)), **SCALA} if machine.executors else {}),
        },
    )


def _laptop_settings(run: str, directory: Path, machine: Machine) -> dict[str, str]:
    return {
        "spark.master": f"local[{machine.cores}]",
        "spark.test.appId": run,  # local mode takes spark.app.id from it; on EMR Serverless that is the job run's id
        "spark.ui.enabled": "false",
        "spark.dynamicAllocation.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory / "tmp"),
        "spark.sql.warehouse.dir": str(directory / "tmp" / "warehouse"),
    }


def _executor_settings(
    settings: Mapping[str, str], fetched: Fetched, directory: Path, image: SparkImage, machine: Machine, *, heap_mb: int
) -> dict[str, str]:
    """Executors in processes of their own, in the process group of the driver.

    Each starts in a folder of its own: relative paths of the request become paths in the job's directory.
    """
    entries = settings.get("spark.executorEnv.PYTHONPATH", "").split(os.pathsep)
    python_path = [str(directory / entry) for entry in entries if entry] + [str(image.python.packages)]
    java = (
        *settings.get("spark.executor.extraJavaOptions", "").split(),
        *machine.jvm_options,
        f"-Dlog4j2.configurationFile={image.logging.as_uri()}",
        f"-Djava.io.tmpdir={directory / 'tmp'}",
    )
    return {
        "spark.master": f"local-cluster[{machine.executors},{machine.cores},{heap_mb}]",
        "spark.executor.instances": str(machine.executors),
        "spark.executor.cores": str(machine.cores),
        "spark.executor.memory": f"{heap_mb}m",
        "spark.executor.extraClassPath": join(image.class_path(fetched.jars)),
        "spark.executor.extraJavaOptions": " ".join(java),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(python_path),
    }


def _spark_home(directory: Path, image: SparkImage) -> Path:
    """A folder that executors are started from: with Spark's jars, and room for their own folders."""
    home = directory / "spark"
    if not home.exists() and image.spark_jars:
        home.mkdir()
        (home / "jars").symlink_to(image.spark_jars[0].parent, target_is_directory=True)
    return home


def _file_system_settings(cloud: Cloud, directory: Path) -> dict[str, str]:
    """Serve s3:// by S3A. On EMR the image's own configuration does."""
    settings = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        "fs.s3a.endpoint": cloud.endpoint,
        "fs.s3a.endpoint.region": cloud.region,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": cloud.access_key,
        "fs.s3a.secret.key": cloud.secret_key,
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.bucket.probe": "0",  # it costs a request per start
        "fs.s3a.directory.marker.retention": "keep",  # no deletion of directory markers after each file
        "fs.s3a.connection.maximum": "64",
        "fs.s3a.fast.upload.buffer": "bytebuffer",
        "fs.s3a.buffer.dir": str(directory / "tmp"),
    }
    return {f"spark.hadoop.{key}": value for key, value in settings.items()}


def _environment(submission: Submission, run: str, directory: Path, image: SparkImage, cloud: Cloud) -> dict[str, str]:
    """A clean environment without the caller's variables."""
    python_path = [submission.driver_environment.get("PYTHONPATH", ""), str(image.python.packages)]
    return {
        **submission.driver_environment,
        "PATH": f"{image.java.home / 'bin'}{os.pathsep}{os.defpath}",
        "HOME": str(directory),
        "TMPDIR": str(directory / "tmp"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "JAVA_HOME": str(image.java.home),
        "PYSPARK_PYTHON": str(image.python.command),
        "PYSPARK_DRIVER_PYTHON": str(image.python.command),
        "PYTHONPATH": os.pathsep.join(entry for entry in python_path if entry),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(directory / "tmp"),
        "EMR_SERVERLESS_JOB_RUN_ID": run,
        "AWS_REGION": cloud.region,
        "AWS_DEFAULT_REGION": cloud.region,
        "AWS_ACCESS_KEY_ID": cloud.access_key,
        "AWS_SECRET_ACCESS_KEY": cloud.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
        "HTTPS_PROXY": _NOWHERE,  # AWS uses https, the emulator doesn't
        **{f"AWS_ENDPOINT_URL_{service}": _NOWHERE for service in REFUSED},
        **{f"AWS_ENDPOINT_URL_{service}": cloud.endpoint for service in REACHABLE},
    }


def size_bytes(size: str) -> int:
    """A JVM size such as 6g in bytes. Without a suffix the unit is MiB, as in Spark."""
    match = _SIZE.match(size.strip())
    if not match:
        return 2 << 30
    return int(match.group(1)) * _UNIT[match.group(2).lower()]
