"""`sluice serve` as a command: the address, and who may ask."""

import socket
import sys

import pytest
import uvicorn
from fastapi.testclient import TestClient
from support.silver_tables import SILVER_FOLDER, SilverFolder

from sluice_cli.main import run
from sluice_cli.tables import serve
from sluice_cli.terminal.run import installation_of


@pytest.fixture
def started(monkeypatch):
    """The applications that were run, without their server's loop."""
    apps = []
    monkeypatch.setattr(serve, "chosen_target", lambda stack: SilverFolder(SILVER_FOLDER))

    def runs(server, sockets):
        with sockets[0]:
            apps.append((server.config.app, sockets[0].getsockname()))

    monkeypatch.setattr(uvicorn.Server, "run", runs)
    return apps


def test_it_listens_on_this_machine_only_and_for_its_names_only(started, capsys):
    assert run(["serve", "--port", "0"]) == 0
    ((app, (host, port)),) = started
    assert host == "127.0.0.1" and f"http://127.0.0.1:{port}/tables" in capsys.readouterr().err
    assert TestClient(app, base_url=f"http://localhost:{port}").get("/tables").status_code == 200
    assert TestClient(app, base_url="http://elsewhere.example").get("/tables").status_code == 400


def test_another_address_of_this_machine_answers_to_its_own_name(started):
    assert run(["serve", "--host", "127.0.0.2", "--port", "0"]) == 0
    ((app, (host, port)),) = started
    assert TestClient(app, base_url=f"http://{host}:{port}").get("/tables").status_code == 200
    assert TestClient(app, base_url="http://elsewhere.example").get("/tables").status_code == 400


def test_another_address_is_served_with_a_warning(started, capsys):
    assert run(["serve", "--host", "0.0.0.0", "--port", "0", "--no-page"]) == 0
    ((app, _),) = started
    assert "no authentication" in capsys.readouterr().err
    inside = TestClient(app, base_url="http://tables.internal")
    assert inside.get("/tables").status_code == 200 and inside.get("/docs").status_code == 404


def test_ctrl_c_is_the_regular_end_of_serving(started, monkeypatch):
    def interrupted(server, sockets):
        sockets[0].close()
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", interrupted)
    assert run(["serve", "--port", "0"]) == 0


def test_a_taken_port_is_named_with_the_option_that_chooses_another(started, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run(["serve", "--port", str(port)]) == 1
    printed = capsys.readouterr().err
    assert f"error: Port {port} of 127.0.0.1 can't be listened on: Address already in use\n" in printed
    assert "--port" in printed.splitlines()[-1] and started == []


def test_an_address_of_another_machine_is_named_with_its_option(started, capsys):
    assert run(["serve", "--host", "192.0.2.1"]) == 1
    printed = capsys.readouterr().err
    assert "of 192.0.2.1 can't be listened on" in printed and "--host" in printed.splitlines()[-1]


def test_a_missing_server_names_the_extra_that_brings_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve"]) == 1
    error, step = capsys.readouterr().err.splitlines()
    assert error == "error: This needs uvicorn, of the extra `serve`"
    assert step == f"next step: Install it: {installation_of('serve')}"


def test_a_token_and_saved_queries_are_those_of_the_command_line(started, monkeypatch, tmp_path, capsys):
    (tmp_path / "all_works.sql").write_text("SELECT count(*) AS n FROM moma.works")
    (tmp_path / "token").write_text("0123456789abcdef\n")
    asked = ["serve", "--port", "0", "--host", "0.0.0.0", "--queries", str(tmp_path)]
    assert run([*asked, "--token-file", str(tmp_path / "token")]) == 0
    monkeypatch.setenv("SLUICE_SERVE_TOKEN", "fedcba9876543210")
    assert run(asked) == 0
    assert "no authentication" not in capsys.readouterr().err
    for (app, _), token in zip(started, ("0123456789abcdef", "fedcba9876543210"), strict=True):
        client = TestClient(app)
        assert client.get("/allworks").status_code == 401
        assert client.get("/allworks", headers={"Authorization": f"Bearer {token}"}).json()["rows"] == [{"n": 6}]
    monkeypatch.setenv("SLUICE_SERVE_TOKEN", "short")
    assert run(asked) == 2 and "SLUICE_SERVE_TOKEN is no token" in capsys.readouterr().err
    (tmp_path / "wrong.sql").write_text("DROP TABLE x")
    monkeypatch.delenv("SLUICE_SERVE_TOKEN")
    assert run(asked) == 2 and "wrong.sql: The statement is not a SELECT" in capsys.readouterr().err
