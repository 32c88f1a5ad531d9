"""The surroundings of a sample event: every mistake gets one line, and no traceback."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sluice_local import processes as children
from sluice_local.stack import sample_world
from sluice_local.stack.sample_world import main

pytestmark = pytest.mark.long


class NoEmulator(BaseHTTPRequestHandler):
    """A server that is not AWS."""

    def do_GET(self):
        content = b"<html>hello"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, format, *args):
        pass


@pytest.fixture
def no_emulator():
    server = ThreadingHTTPServer(("127.0.0.1", 0), NoEmulator)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-event", "--endpoint", "http://127.0.0.1:4566"], "there is no events/no-such-event.json"),
        (["../template", "--endpoint", "http://127.0.0.1:4566"], "there is no events/../template.json"),
        (["admit-s3-put", "--endpoint", "localhost:4566"], "'localhost:4566' is no address"),
        (["admit-s3-put", "--endpoint", "http://[::1"], "is no address"),
        (["admit-s3-put", "--endpoint", "http://127.0.0.1:http"], "is no address"),
        (["admit-s3-put", "--endpoint", "http://127.0.0.1:4566", "--inside", "x"], "'x' is no address"),
        (["admit-s3-put"], "required: --endpoint"),
    ],
    ids=["event", "path", "no scheme", "bracket", "port", "inside", "no endpoint"],
)
def test_a_mistake_of_the_command_line_is_named(tmp_path, capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_address_where_nothing_answers_is_named_with_the_command_that_helps(tmp_path, capsys):
    endpoint = f"http://127.0.0.1:{children.free_port()}"
    assert main(["admit-s3-put", "--endpoint", endpoint, "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"nothing answers at {endpoint}" in said and "sluice local up --port 4566 --bind 0.0.0.0" in said


@pytest.mark.long
def test_a_server_that_is_no_emulator_is_named(tmp_path, capsys, no_emulator):
    assert main(["admit-s3-put", "--endpoint", no_emulator, "--out", str(tmp_path)]) == 1
    assert f"{no_emulator} did not answer as an emulator of AWS does" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sample_world, "set_up", lambda clients, event, root: {})
    (tmp_path / "file").touch()
    assert main(["admit-s3-put", "--endpoint", "http://127.0.0.1:1", "--out", str(tmp_path / "file")]) == 1
    assert f"{tmp_path / 'file'} can't be written: File exists" in capsys.readouterr().err


def test_every_function_is_given_the_address_as_it_is_inside_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_world, "set_up", lambda clients, event, root: {})
    outside, inside = "http://127.0.0.1:4566", "http://host.docker.internal:4566"
    given = ["--endpoint", outside, "--inside", inside, "--out", str(tmp_path), "--package", "packed.zip"]
    assert main(["admit-s3-put", *given]) == 0
    written = (tmp_path / "template.json").read_text()
    functions = [
        resource["Properties"]
        for resource in json.loads(written)["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
    ]
    assert len(functions) > 4 and outside not in written
    assert {each["Environment"]["Variables"]["AWS_ENDPOINT_URL"] for each in functions} == {inside}
    assert {each["CodeUri"] for each in functions} == {str(Path("packed.zip").absolute())}


@pytest.mark.parametrize(
    ("machine", "architecture"), [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64"), ("arm64", "arm64")]
)
def test_functions_run_on_the_machines_own_processor(machine, architecture):
    template = {"Parameters": {"Architecture": {"Default": "arm64"}}, "Resources": {}}
    changed = sample_world.template_for(template, Path("x"), {}, machine)
    assert changed["Parameters"]["Architecture"]["Default"] == architecture
    assert template["Parameters"]["Architecture"]["Default"] == "arm64"
