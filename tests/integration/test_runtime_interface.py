"""Lambda's own runtime interface emulator and client invoke the built functions with every sample event."""

import json
import os
import platform
import re
import subprocess
import threading
import urllib.request
import zipfile
from pathlib import Path

import pytest
import samcli.local
from judging.patience import patient
from support.sam_template import TEMPLATE

from sluice_deploy.release import source_root
from sluice_local import processes as children
from sluice_local.cache import cache_directory
from sluice_local.emr.api import serve
from sluice_local.emr.service import Service
from sluice_local.emulators.choose import start_emulator
from sluice_local.images.pythons import function_package, python_without_site, site_packages
from sluice_local.stack.sample_world import emulator_clients, main, names, set_up

ROOT = source_root()
EVENTS = ROOT / "events"
EMULATOR = (
    Path(samcli.local.__file__).parent
    / "rapid"
    / f"aws-lambda-rie-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x86_64'}"
)


def table():
    """Event -> its function and the answer that the README has for it."""
    for line in (EVENTS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            file, _, function, answer = (cell.strip() for cell in line.split("|")[1:-1])
            yield file.strip("`").removesuffix(".json"), function, answer


def expected(answer):
    """The whole answer, or those of its fields that the README names."""
    whole = re.match(r"`(\{.*?\})`", answer)
    return json.loads(whole[1]) if whole else json.loads("{" + ", ".join(re.findall(r'`("\w+": [^`]+)`', answer)) + "}")


class NoRuns:
    """A stand-in's runner that is never asked: without a release nothing starts."""

    def submitted(self, run):
        raise AssertionError("nothing may start")

    cancelled = submitted


class Functions:
    """The built package, and one runtime interface emulator for each function that was asked."""

    def __init__(self, home, environment):
        self._home, self._environment, self._running = home, environment, {}
        with zipfile.ZipFile(Path(home / "functions.zip")) as package:
            package.extractall(home / "task")
        self._python = python_without_site(home / "python")

    def invoke(self, function, event):
        if function not in self._running:
            self._running[function] = self._start(function)
        _, port = self._running[function]
        url = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"
        with urllib.request.urlopen(
            urllib.request.Request(url, data=json.dumps(event).encode(), method="POST"), timeout=patient(60)
        ) as response:
            return json.load(response)

    def _start(self, function):
        properties = TEMPLATE["Resources"][function]["Properties"]
        port, api = children.free_port(), children.free_port()
        settings = {
            **self._environment,
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "LAMBDA_TASK_ROOT": str(self._home / "task"),
            # The task first, then what the runtime itself has: its client and boto3. The working tree is nowhere.
            "PYTHONPATH": os.pathsep.join([str(self._home / "task"), *site_packages()]),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(properties["Timeout"]),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(properties.get("MemorySize", 512)),
        }
        addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
        addresses += ["--runtime-api-address", f"127.0.0.1:{api}"]
        command = [str(EMULATOR), *addresses, str(self._python), "-m", "awslambdaric", properties["Handler"]]
        log = (self._home / f"{function}.log").open("wb")
        process = subprocess.Popen(
            command, cwd=self._home / "task", env=settings, stdout=log, stderr=log, start_new_session=True
        )
        children.wait_until(
            lambda: _listens(port),
            process=process,
            what=f"the runtime of {function}",
            log=self._home / f"{function}.log",
            timeout=patient(30),
        )
        return process, port

    def stop(self):
        for process, _ in self._running.values():
            children.end(process, grace=3.0)


def _listens(port):
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    home = tmp_path_factory.mktemp("runtime")
    (home / "functions.zip").write_bytes(function_package(ROOT, cache_directory(os.environ)))
    emulator = start_emulator(home / "emulator")
    service = Service(
        lambda service: NoRuns(), account="123456789012", region="us-west-2", changed=lambda run, previous: None
    )
    server = serve(service, children.free_port())
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    application = service.create_application({"name": "sluice", "releaseLabel": "emr-7.14.0", "type": "SPARK"})[
        "applicationId"
    ]
    functions = Functions(home, names(emulator.endpoint, f"http://127.0.0.1:{server.server_address[1]}", application))
    try:
        yield functions, emulator_clients(emulator.endpoint), emulator.endpoint
    finally:
        functions.stop()
        server.shutdown()
        server.server_close()
        emulator.stop()


@pytest.mark.parametrize(
    "event, function, answer",
    list(table()),
    ids=lambda value: value if "-" in str(value) and len(str(value)) < 60 else "",
)
def test_the_function_answers_as_the_table_says(world, event, function, answer):
    functions, clients, _ = world
    wanted = expected(answer)
    assert wanted, "the table gives no answer that could be compared"
    answered = functions.invoke(function, set_up(clients, event, ROOT))
    assert "errorMessage" not in answered, answered
    assert (answered if answer.startswith("`{") else {name: answered[name] for name in wanted}) == wanted


def test_the_world_of_an_event_is_one_command(world, tmp_path, capsys):
    functions, clients, endpoint = world
    assert main(["admit-s3-put", "--endpoint", endpoint, "--out", str(tmp_path)]) == 0
    assert functions.invoke("AdmitFunction", json.loads((tmp_path / "event.json").read_text())) == {
        "batchItemFailures": []
    }
    assert clients.dynamodb.query(
        TableName="sluice-events-ledger",
        KeyConditionExpression="pk = :lane",
        ExpressionAttributeValues={":lane": {"S": "lane#main"}},
    )["Items"]
    function = json.loads((tmp_path / "template.json").read_text())["Resources"]["AdmitFunction"]["Properties"]
    assert function["Environment"]["Variables"].items() >= {"AWS_ENDPOINT_URL": endpoint, "RELEASE": ""}.items()


def test_the_functions_run_from_the_package_and_not_from_the_sources(world):
    functions, _, _ = world
    package = functions._home / "task"
    paths = subprocess.run(
        [str(functions._python), "-c", "import sluice, sluice_aws; print(sluice.__file__, sluice_aws.__file__)"],
        cwd=package,
        check=True,
        text=True,
        capture_output=True,
        env={"PYTHONPATH": os.pathsep.join([str(package), *site_packages()])},
    ).stdout.split()
    assert len(paths) == 2 and all(Path(path).is_relative_to(package) for path in paths)
