"""What the commands of a session share in bubblewrap: a network, caches, allowed hosts and ports; and that it ends."""

from __future__ import annotations

import fcntl
import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from agent_tools.sandbox.conditions import RunConditions, SandboxLimits
from agent_tools.sandbox.session import TemporaryFolder, remove_stale
from agent_tools.shell.jobs import Jobs
from tests.support.fork_server import ROOT
from tests.support.loopback import SaysHello
from tests.support.sandboxes import SandboxedBench, missing

SERVER = (
    "exec python3 -c 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind=\"127.0.0.1\")'"
)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[SandboxedBench]:
    found = SandboxedBench(tmp_path, SandboxLimits())
    (found.home / ".cache").mkdir()
    (found.home / ".cache/old").write_text("as it was\n")
    yield found
    found.bench.ctx.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def fetched(port: int) -> str:
    """What a server on this machine's loopback says; "" where there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.makefile("rb").read().decode()
    except OSError:
        return ""


def soon(what: object, seconds: float = 20.0) -> bool:
    until = monotonic() + seconds
    while not what():  # type: ignore[operator]
        if monotonic() > until:
            return False
        sleep(0.02)
    return True


def test_a_server_that_one_command_starts_is_reached_by_the_next_and_from_outside(house: SandboxedBench) -> None:
    house.shared()
    (house.root / "page").write_text("the page\n")
    port = free_port()
    house(SERVER.format(port=port), run_in_background=True)
    get = f"for i in $(seq 100); do exec 3<>/dev/tcp/127.0.0.1/{port} && break; sleep 0.05; done 2>/dev/null;"
    assert "the page" not in house("cat page > /dev/null; ls /run")
    assert "page" in house(get + " printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3")
    assert soon(lambda: "page" in fetched(port))
    house.bench("KillShell", shell_id="b1")
    assert soon(lambda: not fetched(port))


def test_a_server_that_no_user_and_no_rule_allowed_is_closed_to_the_browser_and_a_line_says_so(
    house: SandboxedBench,
) -> None:
    house.shared()
    port = free_port()
    house.bench.ctx.run_conditions = lambda command: RunConditions(vouched=False)
    command = f"python3 -m http.server {port} --bind 127.0.0.1"
    shown = house(command, run_in_background=True)
    text = f"Port {port}: open to later commands, closed to the user's browser"
    assert soon(lambda: text in shown or text in house.bench("BashOutput", shell_id="b1").text)
    for_model, for_user = house.bench.ctx.state(Jobs).find("b1").closed_ports([port + 1])
    assert f"/permissions allow Bash({command})" in for_model and "closed to your browser until you allow" in for_user
    assert not fetched(port) and text not in house.bench("BashOutput", shell_id="b1").text
    house.bench("KillShell", shell_id="b1")


def test_nothing_of_this_machine_is_reached_but_allowed_ports(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SaysHello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        get = f"exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
        closed, open_ = (
            SandboxedBench(tmp_path / "a", SandboxLimits()),
            SandboxedBench(tmp_path / "b", SandboxLimits(ports=(port,))),
        )
        refused = closed(get)
        assert "hello" not in refused and f"sandbox.ports can allow a port of this machine ({port})" in refused
        open_.shared()
        assert "hello" in open_(get)
        for each in (closed, open_):
            each.bench.ctx.close()
        server.shutdown()


def test_allowed_hosts_are_reached_through_the_proxy_and_the_others_are_named(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SaysHello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        house = SandboxedBench(tmp_path, SandboxLimits(domains=(f"127.0.0.1:{port}",)))
        house.shared()
        code = (
            "import os, urllib.request as u; h = u.ProxyHandler({'http': os.environ['HTTP_PROXY']})\n"
            "import sys; os.environ.pop('NO_PROXY'); os.environ.pop('no_proxy')\n"
            "print(u.build_opener(h).open(sys.argv[1], timeout=10).read())"
        )
        (house.root / "get.py").write_text(code)
        assert "hello" in house(f"python3 get.py http://127.0.0.1:{port}/")
        refused = house("python3 get.py http://registry.example.org/")
        assert "[the sandbox refused this: registry.example.org: not in the user's setting sandbox.domains" in refused
        house.bench.ctx.close()
        server.shutdown()


def test_caches_are_read_and_written_for_the_session_alone(house: SandboxedBench) -> None:
    house.shared()
    assert "as it was" in house("cat ~/.cache/old; echo new > ~/.cache/new; echo changed > ~/.cache/old")
    assert house("cat ~/.cache/old ~/.cache/new").splitlines()[:2] == ["changed", "new"]
    assert "made" in house("mkdir -p ~/.npm/_cacache && echo made > ~/.npm/_cacache/x && cat ~/.npm/_cacache/x")
    assert [p.name for p in (house.home / ".cache").iterdir()] == ["old"] and not (house.home / ".npm").exists()
    assert (house.home / ".cache/old").read_text() == "as it was\n"


@pytest.mark.parametrize("caches", ["shared", "off"])
def test_caches_can_be_shared_or_closed(tmp_path: Path, caches: str) -> None:
    house = SandboxedBench(tmp_path, SandboxLimits(caches=caches), caches=caches != "off")  # type: ignore[arg-type]
    (house.home / ".cache").mkdir()
    found = house("echo new > ~/.cache/new")
    assert (house.home / ".cache/new").exists() is (caches == "shared")
    assert ("the sandbox refused this: writing" in found) is (caches == "off")
    house.bench.ctx.close()


@pytest.mark.parametrize("caches", ["shared", "session"])
def test_a_secret_in_a_cache_cannot_be_moved_to_where_the_next_command_sees_it(tmp_path: Path, caches: str) -> None:
    house = SandboxedBench(tmp_path, SandboxLimits(caches=caches))  # type: ignore[arg-type]
    token = house.home / ".cache/huggingface/token"
    token.parent.mkdir(parents=True)
    token.write_text("SECRET")
    house("mv ~/.cache/huggingface ~/.cache/moved; ln ~/.cache/huggingface/token ~/.cache/linked")
    assert "SECRET" not in house("cat ~/.cache/moved/token ~/.cache/linked ~/.cache/huggingface/token")
    house.bench.ctx.close()


def test_where_nothing_can_be_shared_commands_run_and_caches_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import marshal, socket, sys\ns = socket.socket(fileno=int(sys.argv[1]))\ns.recv(9999)\n"
        's.send(marshal.dumps({"error": "not allowed"}))'
    )
    monkeypatch.setattr("agent_tools.sandbox.session._INSIDE", broken)
    house = SandboxedBench(tmp_path, SandboxLimits())
    (house.home / ".cache").mkdir()
    assert "fine" in house("echo fine > ~/.cache/x && cat ~/.cache/x; ls /sys/class/net")
    assert house.sandbox.session is not None and house.sandbox.session.space_error == "not allowed"
    assert not (house.home / ".cache/x").exists()
    house.bench.ctx.close()


def test_the_namespaces_cannot_be_entered_again_from_inside(house: SandboxedBench) -> None:
    house.shared()
    code = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"
        "print([libc.setns(int(fd), 0) for fd in os.listdir('/proc/self/fd') if int(fd) > 2])"
    )
    (house.root / "enter.py").write_text(code)
    given = house("python3 enter.py").splitlines()[0]
    assert given.startswith("[-1") and "0" not in given


def test_the_temporary_folder_goes_with_the_session_and_a_left_one_with_the_next(tmp_path: Path) -> None:
    house = SandboxedBench(tmp_path, SandboxLimits())
    house("mkfifo /tmp/x; echo y > ~/.cache/y")
    folder = house.sandbox._session_folder()
    assert folder.is_dir()
    house.bench.ctx.close()
    assert not folder.exists()
    held, left = TemporaryFolder(), tmp_path / "agent-sandbox-left"
    (left / "layers/0/work/work").mkdir(parents=True)
    (left / "layers/0/work/work").chmod(0)
    remove_stale(tmp_path)
    assert not left.exists()
    remove_stale(held.path.parent)
    assert held.path.is_dir()
    held.close()


@pytest.mark.parametrize("moment", ["mkdtemp", "open", "flock"])
def test_a_folder_that_another_program_removes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Another agent that starts at the same moment takes a folder without a lock for one that was left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    module = {"mkdtemp": tempfile, "open": os, "flock": fcntl}[moment]
    real, calls = getattr(module, moment), 0

    def interrupted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            return real(*args, **options)
        if moment == "flock":
            shutil.rmtree(next(tmp_path.iterdir()))
            return real(*args, **options)
        made = real(*args, **options)
        shutil.rmtree(next(tmp_path.iterdir()))
        return made

    monkeypatch.setattr(module, moment, interrupted)
    folder = TemporaryFolder()
    assert folder.path.is_dir() and list(tmp_path.iterdir()) == [folder.path]
    monkeypatch.undo()
    remove_stale(tmp_path)
    assert folder.path.is_dir()
    folder.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGQUIT, signal.SIGTERM])
def test_a_program_that_is_killed_leaves_no_process_of_its_sandbox(tmp_path: Path, deadly: signal.Signals) -> None:
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    mark = f"{os.getpid()}{int(deadly)}"
    code = f"""
import sys, threading
from pathlib import Path
from tests.support.sandboxes import SandboxedBench
from agent_tools.sandbox.conditions import SandboxLimits
house = SandboxedBench(Path(sys.argv[1]), SandboxLimits())
from agent_tools.sandbox.conditions import SandboxLimits
house("sleep 1000.{mark} & sleep 2000.{mark}", run_in_background=True)
print("ready", flush=True)
house("setsid sleep 3000.{mark} & sleep 4000.{mark}")
"""
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}"}
    program = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=env, stdout=subprocess.PIPE)
    assert program.stdout is not None and program.stdout.readline() == b"ready\n"

    def living() -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if (mark.encode() in b" ".join(words) and words[0] == b"sleep") or (
                    str(tmp_path).encode() in b" ".join(words) and b"bwrap" in words[0]
                ):
                    found.append(entry.name)
        return found

    assert soon(lambda: len(living()) >= 4)
    program.send_signal(deadly)
    program.wait(20)
    program.stdout.close()
    assert soon(lambda: not living()), living()
