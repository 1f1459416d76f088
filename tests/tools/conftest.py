"""The fixtures of the tool tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.sandboxing import Cage
from tests.tools.toolbench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = tmp_path / "work"
    root.mkdir()
    return Bench(root)


@pytest.fixture
def without_rg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_tools.search.grep.find_rg", lambda ctx: None)
    monkeypatch.setattr("agent_tools.search.glob.find_rg", lambda ctx: None)


@pytest.fixture(params=["bubblewrap", "landlock"])
def cage(request: pytest.FixtureRequest, tmp_path: Path) -> Cage:
    return Cage(request.param, tmp_path)


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Cage:
    return Cage("bubblewrap", tmp_path)


@pytest.fixture
def landlock(tmp_path: Path) -> Cage:
    return Cage("landlock", tmp_path)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for good.example that nobody signed but itself, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("THE TLS TESTS DID NOT RUN: there is no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=good.example"]
    command += ["-addext", "subjectAltName=DNS:good.example", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both
