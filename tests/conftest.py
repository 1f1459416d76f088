"""Fixtures that tests of several packages use."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.forked_workers import fork_workers
from tests.support.hypothesis_examples import examples

# A shell has what it runs in the background ignore these, and the programs that tests start would inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# How long an example takes says more about the machine than about the program.
settings.register_profile("untimed", deadline=None, max_examples=examples(100))
settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Any:
    """What collection makes of ten thousand tests stays to the end, and need not be looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    fork_workers(config, specs)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Neighbours run in one process, where they share what is dear to start; one that is done takes work of others."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a time limit of their own take longest: begun last, they would keep one worker busy alone."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder to work in with one file, `a.txt`; its parent is there for a home."""
    return _folder(tmp_path)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The same as a workspace: with an empty `.git`."""
    folder = _folder(tmp_path)
    (folder / ".git").mkdir()
    return folder


def _folder(base: Path) -> Path:
    folder = base / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("hello world\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of the user who works in `root` or `work`."""
    folder = tmp_path / "home"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def tmp_name() -> Iterator[str]:
    """A path in /tmp that nothing else has, removed afterwards."""
    path = f"/tmp/tests{os.getpid()}{os.urandom(4).hex()}"
    yield path
    shutil.rmtree(path, ignore_errors=True)
    Path(path).unlink(missing_ok=True)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for good.example and 127.0.0.1 that nobody signed but itself, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("THE TLS TESTS DID NOT RUN: there is no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=good.example"]
    command += ["-addext", "subjectAltName=DNS:good.example,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


@pytest.fixture
def model() -> Iterator[Any]:
    """A model that a test tells what to say (`tests.support.stories.model`)."""
    from tests.support.stories.model import Model

    with Model() as made:
        yield made
