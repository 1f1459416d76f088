"""Commands in Seatbelt. They run on macOS only; with SEATBELT=required, as in the workflow, a skipped test fails."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.sandbox.bwrap import Shared
from agent_tools.sandbox.profile import make_profile
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.sandbox import Sandbox, try_seatbelt
from tests.support.sandboxes import PYTHON, SandboxTester, missing
from tests.support.tool_bench import Bench

WHO = "-c user.name=n -c user.email=n@example.org"


@pytest.fixture(autouse=True)
def seatbelt() -> None:
    if reason := missing("seatbelt"):
        (pytest.fail if os.environ.get("SEATBELT") == "required" else pytest.skip)(f"SEATBELT WAS NOT TESTED: {reason}")


class _Tester(SandboxTester):
    def __init__(self, folder: Path, name: str = "work") -> None:
        super().__init__("seatbelt", folder.resolve())
        self.root = folder.resolve() / name
        self.root.mkdir(exist_ok=True)
        self.roots = [self.root]
        self.git("init", "-q", ".")
        (self.root / "a.txt").write_text("one\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")


@pytest.fixture
def cage(tmp_path: Path) -> _Tester:
    return _Tester(tmp_path)


def test_macos_takes_the_rules(cage: _Tester) -> None:
    for network in (False, True):
        assert try_seatbelt(cage.profile(network=network)) == ""


def test_the_workspace_and_the_temporary_folder_are_written_and_nothing_else(cage: _Tester, tmp_name: str) -> None:
    done = cage('echo two >> a.txt && echo x > "$TMPDIR/x" && cat "$TMPDIR/x" && cat <<< here > /dev/null')
    assert (done.out, done.code) == ("x\n", 0)
    for path in (f"{cage.home}/x", f"{cage.home.parent}/x", tmp_name, "/private/var/tmp/agent-seatbelt-test"):
        done = cage(f"echo x > {path}")
        assert done.code == 1 and "Operation not permitted" in done.out, path
        assert not Path(path).exists()


def test_programs_work(cage: _Tester) -> None:
    done = cage(
        f'set -e; git() {{ command git {WHO} "$@"; }}; echo two >> a.txt; git add -A; git commit -qm second\n'
        "git checkout -qb side; echo x > b; git add b; git commit -qm x; git checkout -q -; git merge -q side\n"
        "git log --oneline | wc -l; ls / > /dev/null; id -un; date > /dev/null"
    )
    assert done.code == 0, done.out
    code = "import multiprocessing as m, subprocess as s; m.Lock(); print(s.check_output(['/bin/echo', 'hi']))"
    assert cage([PYTHON, "-c", code]).out == "b'hi\\n'\n"
    assert cage("exit 7").code == 7 and cage("kill -9 $$").code == -9


def test_the_home_folder_and_secrets_cannot_be_read(cage: _Tester) -> None:
    for name in ("notes.txt", ".ssh/id_ed25519", ".netrc"):
        path = f"{cage.home}/{name}"
        done = cage(
            f"cat {path}; ln -s {path} link; cat link; ln {path} second; cat second; cp -c {path} copy; cat copy"
        )
        assert "SECRET" not in done.out and "plain notes" not in done.out, done.out
        (cage.root / "link").unlink(missing_ok=True)
    assert cage(f"ls {cage.home}").code != 0
    assert "[build]" in cage(f"cat {cage.home}/.cargo/config.toml").out


@pytest.mark.parametrize(
    "attack",
    [
        "echo '[core] fsmonitor = evil' >> .git/config",
        "git config core.fsmonitor evil",
        "echo evil > .git/hooks/pre-commit",
        "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git/config .git/c; echo evil > .git/config",
        "echo evil > .git/config.worktree",
        "mv .git .gone && cp -r .gone .git && echo evil >> .git/config",
        "ln -f a.txt .git/config",
        "ln .git/config c && echo evil >> c",
        "ln -sfn a.txt .git/hooks",
        "cp -c a.txt .git/info/attributes",
        "echo evil > .mcp.json",
        "echo evil > .MCP.json",
        "echo evil > x; mv x .Mcp.Json",
        "mkdir .claude",
        "mkdir d; echo evil > d/settings.json; mv d .CLAUDE",
        "ln -s d .vscode",
        "mkdir -p .GIT/hooks; echo evil > .GIT/hooks/pre-commit",
    ],
)
def test_repository_and_settings_are_kept(cage: _Tester, attack: str) -> None:
    before = {
        path: path.read_bytes() for name in ("config", "hooks/*", "info/*") for path in (cage.root / ".git").glob(name)
    }
    cage(attack)
    assert {path: path.read_bytes() for path in before} == before
    for name in ("hooks/pre-commit", "config.worktree", "info/attributes"):
        assert not (cage.root / ".git" / name).exists()
    assert not any(path.name.lower() in (".mcp.json", ".claude", ".vscode") for path in cage.root.iterdir())


@pytest.mark.parametrize("name", ['we"ird (d)', "back\\slash", "new\nline", '") (allow default) ("', "café", "a=b*"])
def test_a_folder_of_any_name_is_a_workspace(tmp_path: Path, name: str) -> None:
    cage = _Tester(tmp_path, name)
    assert cage("echo two >> a.txt").code == 0
    assert cage("echo evil > .git/hooks/pre-commit").code != 0
    assert cage("echo x > ../other").code != 0


@pytest.fixture
def server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_without_network_only_an_allowed_port_is_reached(cage: _Tester, server: int) -> None:
    command = [PYTHON, "-c", f"import socket; socket.create_connection(('127.0.0.1', {server}), 5); print('reached')"]
    assert "Operation not permitted" in cage(command).out
    assert cage(command, network=True).out == "reached\n"
    with cage.sandbox.prepare(command, cage.root, {}, cage.profile(), Shared(ports=(server,))) as ready:
        done = subprocess.run(ready.argv, cwd=cage.root, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "reached\n", done.stderr


def test_sockets_of_services_are_not_reached_and_those_of_the_workspace_are(
    cage: _Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('reached')"
    for folder, reached in ((cage.root, True), (cage.home.parent, False)):
        monkeypatch.chdir(folder)  # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
            listener.listen()
            assert ("reached" in cage([PYTHON, "-c", code, "s"], cwd=folder).out) is reached


def test_no_other_program_acts_for_the_command(cage: _Tester) -> None:
    out = cage.home / "acted"
    for line in (
        f"osascript -e 'do shell script \"touch {out}\"'",
        f"launchctl submit -l agent.seatbelt.test -- /usr/bin/touch {out}",
        f"echo 'touch {out}' | at now",
        "security dump-keychain",
        "ps -Eww -p $PPID",
    ):
        cage(line, seconds=20)
    assert not out.exists()


def test_a_command_has_its_terminal(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "work"
    root.mkdir()
    bench = Bench(root)
    runner = SandboxRunner(
        "auto", lambda temp, network: make_profile([root], tmp_path / "home", temp=temp, network=network), bench.ctx.env
    )
    runner._sandbox = Sandbox("seatbelt")
    bench.ctx.supply(runner)
    try:
        text = bench("Bash", command="test -t 0 && test -t 1 && echo a terminal", pty=True).text
    finally:
        runner.close()
    assert "a terminal" in text
