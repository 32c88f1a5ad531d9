"""Where the local stack listens: on the loopback address, unless `--bind` names another."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sluice_local.emr.api import serve
from sluice_local.emulators.ministack import start_ministack
from sluice_local.processes import free_port

ANOTHER = "127.0.0.2"  # of this machine, as only those listen there who listen everywhere


def answers(address: str, port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(2)
        return client.connect_ex((address, port)) == 0


def test_a_free_port_is_one_that_no_outgoing_connection_gets() -> None:
    port = free_port()
    assert port < 32_768
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))  # nobody has it


@pytest.mark.parametrize(("bind", "everywhere"), [("127.0.0.1", False), ("0.0.0.0", True)])
@pytest.mark.long
def test_the_emulator_and_the_stand_in_listen_where_they_are_told(tmp_path: Path, bind: str, everywhere: bool) -> None:
    emulator = start_ministack(tmp_path / "home", port=None, environment=os.environ, bind=bind)
    server = serve(None, free_port(), bind)  # type: ignore[arg-type]  # nothing is asked of it
    try:
        assert urlsplit(emulator.endpoint).hostname == "127.0.0.1" and emulator.alive
        assert answers("127.0.0.1", emulator.port) and answers("127.0.0.1", server.server_address[1])
        assert answers(ANOTHER, emulator.port) is everywhere
        assert answers(ANOTHER, server.server_address[1]) is everywhere
    finally:
        server.server_close()
        emulator.stop()
