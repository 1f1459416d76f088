"""Which sandbox is taken and what is said of it; whose git directories are opened; how a refusal is recognised."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.base import ToolError
from agent_tools.sandbox import bwrap
from agent_tools.sandbox import landlock as sandbox_landlock
from agent_tools.sandbox.conditions import Kind
from agent_tools.sandbox.denials import explain_refusal
from agent_tools.sandbox.profile import Profile, git_directories, make_profile, secret_paths
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.sandbox import select_sandbox
from tests.support.fork_server import ROOT
from tests.support.sandboxes import SandboxTester, missing, tree

linux = pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: not Linux")


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "_SYSTEM_FOLDERS", ())


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.exit('agent sandbox: cannot be set up: the kernel has no Landlock')")
    monkeypatch.setattr(sandbox_landlock, "LAUNCHER", broken)


def test_the_best_that_works_is_taken(tmp_path: Path) -> None:
    best = next((kind for kind in ("bubblewrap", "landlock") if not missing(kind)), "none")  # type: ignore[arg-type]
    chosen = select_sandbox("auto", make_profile([tmp_path], None), os.environ)
    assert chosen.kind == best
    if best == "bubblewrap":
        assert chosen.text() == "bubblewrap"
    assert tree(tmp_path) == set()


@linux
def test_without_bubblewrap_it_is_landlock_and_both_are_reported(no_bubblewrap: None, landlock: SandboxTester) -> None:
    chosen = select_sandbox("auto", landlock.profile(), {"PATH": "relative"}, landlock=True)
    assert chosen.text() == "Landlock and seccomp; not bubblewrap: it is not installed"
    assert chosen.limits


@linux
def test_bubblewrap_that_does_not_work_is_not_taken(
    no_bubblewrap: None, landlock: SandboxTester, tmp_path: Path
) -> None:
    tool = tmp_path / "bin/bwrap"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    tool.chmod(0o755)
    chosen = select_sandbox("auto", landlock.profile(), {"PATH": str(tool.parent)}, landlock=True)
    assert chosen.text().endswith("not bubblewrap: bwrap: No permissions to create new namespace")
    # A command could have put one there itself.
    inside = select_sandbox(
        "auto", landlock.profile().replace(writable=(tool.parent,)), {"PATH": str(tool.parent)}, landlock=True
    )
    assert inside.why == ("bubblewrap: it is not installed",)


@linux
def test_without_any_commands_run_as_they_are_or_not_at_all(
    no_bubblewrap: None, no_landlock: None, tmp_path: Path
) -> None:
    profile = make_profile([tmp_path], None)
    none = select_sandbox("auto", profile, {}, landlock=True)
    text = "bubblewrap: it is not installed; Landlock: agent sandbox: cannot be set up: the kernel has no Landlock"
    assert none.text() == f"none, so commands run with your permissions: {text}"
    assert none.prepare(["ls"], tmp_path, {"A": "b"}, profile).argv == ["ls"]
    required = select_sandbox("require", profile, {}, landlock=True)
    assert required.text() == f"none, so no command will run: {text}"
    with pytest.raises(ToolError, match="there is none: bubblewrap: it is not installed"):
        required.prepare(["ls"], tmp_path, {}, profile)


def test_off_is_off_and_starts_nothing(tmp_path: Path) -> None:
    off = select_sandbox("off", Profile((tmp_path,)), {})
    assert off.text() == "off: commands run with your permissions" and off.kind == "none"
    ready = off.prepare(["ls"], tmp_path, {}, Profile((tmp_path,)))
    assert ready.argv == ["ls"] and ready.code(139) == 139


@pytest.mark.parametrize(
    ("output", "code", "network", "text"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", 1, False, "refused this: writing outside"),
        ("OSError: [Errno 30] EROFS: read-only", 1, True, "refused this: writing outside"),
        ("error: could not write config file .git/config: Device or resource busy", 4, True, "a protected file"),
        ("curl: (6) Could not resolve host: example.org", 6, False, "refused this: there is no network in it"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", 1, False, "there is no network"),
        ("npm ERR! code ENOTFOUND", 1, False, "there is no network"),
        ("connect: Network is unreachable", 2, False, "there is no network"),
        ("curl: (6) Could not resolve host: example.org", 6, True, ""),
        (
            "<urlopen error [Errno 111] Connection refused>",
            1,
            False,
            "may have refused this: there is no network in it",
        ),
        ("<urlopen error [Errno 111] Connection refused>", 1, True, ""),
        ("", -31, False, "a system call"),
        ("cat: x: Permission denied", 1, False, "may have refused this: a protected or hidden file, the network"),
        ("cat: x: Permission denied", 1, True, "may have refused this: a protected or hidden file, or a system call"),
        ("bwrap: Can't find source path /x: No such file or directory", 1, False, "could not be set up: Can't find"),
        ("agent sandbox: cannot be set up: no", 125, False, "could not be set up: cannot be set up: no"),
        ("Read-only file system", 0, False, ""),
        ("fatal: Failed to resolve 'HEAD' as a valid ref.", 128, False, ""),
        ("npm ERR! ERESOLVE unable to resolve dependency tree", 1, False, ""),
        ("error: could not resolve HEAD to a revision", 1, False, ""),
        ("Failed to resolve 'example.org' ([Errno -3])", 1, False, "no network in it"),
        ("wget: unable to resolve host address ‘x.org’", 4, False, "no network in it"),
        ("E: Could not resolve 'deb.debian.org'", 100, False, "no network in it"),
        ("ssh: Could not resolve hostname x: -3", 255, False, "no network in it"),
        ("x: Read-only file system\n" + "fine\n" * 9_000, 1, False, "protected file; 1 line of the output names it;"),
        ("fine\n" * 9_000 + "/etc/x: Read-only file system\nfine\n" * 2_000, 1, False, "(/etc/x); 2,000 lines of the"),
        (
            "getaddrinfo\n" * 3 + "fine\n" * 9_000 + "could not resolve host: a.org",
            1,
            False,
            "network in it (a.org); the",
        ),
        ("x" * 90_000 + "Permission denied" + "y" * 90_000, 1, False, "1 line of the output names it; call again"),
        ("connecting to localhost:5432\n" + "fine\n" * 9_000 + "Connection refused", 1, False, "(5432); 1 line of"),
        ("AssertionError: 1 != 2", 1, False, ""),
    ],
)
def test_a_refusal_is_recognised(output: str, code: int, network: bool, text: str) -> None:
    line = explain_refusal("bubblewrap", output.splitlines(), code, network=network)
    assert text in line and bool(text) == bool(line)
    if line:
        assert line.startswith("[the sandbox ") and line.endswith("or continue without it]")
    assert explain_refusal("none", output.splitlines(), code, network=network) == ""


def test_real_refusals_are_recognised(cage: SandboxTester) -> None:
    def explained(command: str) -> str:
        done = cage(command)
        return explain_refusal(cage.kind, done.out.splitlines(), done.code, network=False)

    assert "refused this" in explained("echo x > /etc/agent-test") and "refused this" in explained("mkdir ~/x")
    assert (
        explained("exec 3<>/dev/tcp/198.51.100.1/80") and explained("cat missing") == "" and explained("exit 3") == ""
    )
    assert explained("unshare -Ur true").startswith("[the sandbox may have refused this")
    if cage.kind == "bubblewrap":
        profile = cage.profile().replace(writable=(cage.root / "gone",), protected=())
        done = cage("true", profile=profile)
        assert explain_refusal(cage.kind, done.out.splitlines(), done.code, network=False).startswith(
            "[the sandbox could not be set up"
        )


@pytest.mark.parametrize("command", ["git checkout -q other", "git merge -q other; true", "git reset --hard other"])
def test_git_that_could_not_replace_a_protected_file_is_reported_also_with_0(
    bubblewrap: SandboxTester, command: str
) -> None:
    tester = bubblewrap
    tester.git("init", "-q")
    for number, branch in enumerate(("main", "other")):
        tester.git("checkout", "-q", "-b", branch) if number else None
        (tester.root / ".mcp.json").write_text(f"{number}")
        tester.git("add", ".")
        tester.git("commit", "-qm", branch)
    tester.git("checkout", "-q", "main")
    done = tester(command)
    line = explain_refusal(tester.kind, done.out.splitlines(), done.code, network=False)
    assert (tester.root / ".mcp.json").read_text() == "0"
    assert "since .mcp.json is protected; git status shows the rest" in line


def test_a_repository_in_the_workspace_opens_nothing_else(tmp_path: Path) -> None:
    assert git_directories(tmp_path) == ([], [tmp_path / ".git"])
    (tmp_path / ".git/modules").mkdir(parents=True)
    writable, protected = git_directories(tmp_path)
    assert writable == [] and {p.name for p in protected} == {
        "config", "config.worktree", "hooks", "exclude", "attributes", "commondir", "modules",
    }  # fmt: skip


def test_a_submodule_may_write_the_directory_that_names_it(tmp_path: Path) -> None:
    root, real = tmp_path / "super/sub", tmp_path / "super/.git/modules/sub"
    root.mkdir(parents=True)
    real.mkdir(parents=True)
    (root / ".git").write_text("gitdir: ../.git/modules/sub\n")
    assert git_directories(root) == ([], [root / ".git"])
    (real / "config").write_text('[core]\n\tbare = false\n\tworktree = "../../../sub"\n')
    writable, protected = git_directories(root)
    assert writable == [real] and real / "hooks" in protected and root / ".git" in protected
    (real / "config").write_text("[core]\n\tworktree = ../../../other\n")
    assert git_directories(root)[0] == []


def test_secret_places_follow_links_and_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    (tmp_path / "dotfiles/ssh").mkdir(parents=True)
    (tmp_path / ".ssh").symlink_to("dotfiles/ssh")
    (tmp_path / "conf/gh").mkdir(parents=True)
    found = [p for p in secret_paths(tmp_path) if p.is_relative_to(tmp_path)]
    assert found == [tmp_path / "dotfiles/ssh", tmp_path / "conf/gh"]


def test_what_is_left_out_is_left_out_of_whole_trees(tmp_path: Path) -> None:
    for name in ("a/secret/x", "a/open/y", "b/z"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/secret")
    granted = sandbox_landlock.grantable_paths(tmp_path, [tmp_path / "a/secret"])
    assert set(granted) == {str(tmp_path / "a/open"), str(tmp_path / "b")}
    assert sandbox_landlock.grantable_paths(tmp_path, [Path("/elsewhere")]) == [str(tmp_path)]
    assert sandbox_landlock.grantable_paths(tmp_path, [tmp_path]) == []


# Run by another user, so it stands alone: argv is the folder, the kind of sandbox, bubblewrap, and commands.
_ALONE = """
import json, os, subprocess, sys
from pathlib import Path
from agent_tools.sandbox.sandbox import Sandbox, try_bubblewrap, try_landlock
from agent_tools.sandbox.profile import Profile, make_profile
from agent_tools.sandbox.temporary import TemporaryMount
folder, kind, program = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
temp = (TemporaryMount(Path("/tmp"), folder / "private"),)
profile = make_profile([folder / "work"], folder / "home", temp=temp)
reason = try_bubblewrap(program, Profile(())) if kind == "bubblewrap" else try_landlock(Profile(()))
said = [reason]
for command in [] if reason else sys.argv[4:]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LC_ALL": "C"}
    with Sandbox(kind, program=program).prepare(["/bin/bash", "-c", command], folder / "work", env, profile) as ready:
        done = subprocess.run(ready.argv, env=ready.env, cwd=folder / "work", pass_fds=ready.pass_fds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said.append(done.stdout.decode())
print(json.dumps(said))
"""


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder that an unprivileged user owns, with a copy of the tools that they can read."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("NOT TESTED: needs root and setpriv, to become someone else")
    with tempfile.TemporaryDirectory(prefix="agent-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(ROOT / "tools/agent_tools", folder / "tools/agent_tools", ignore=shutil.ignore_patterns("_*_"))
        for made in ("work", "home", "private"):
            (folder / made).mkdir()
            os.chown(folder / made, 65534, 65534)
        yield folder


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_an_unprivileged_user_has_the_same_sandbox(theirs: Path, kind: Kind) -> None:
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    pythons = [
        p for n in ("python3.13", "python3.12", "python3.11", "python3") if (p := shutil.which(n, path="/usr/bin"))
    ]
    usable = (p for p in pythons if subprocess.run([*become, p, "-c", check], check=False, cwd="/").returncode == 0)
    if (python := next(usable, None)) is None:
        pytest.skip("NOT TESTED: no Python 3.11 that another user can run")
    subprocess.run(
        [*become, "git", "init", "-q", str(theirs / "work")], check=True, cwd="/", env={"HOME": "/nonexistent"}
    )
    before = tree(theirs / "work")
    commands = [
        "id -u; grep -E 'NoNewPrivs|CapEff|Seccomp:' /proc/self/status | cut -f 2",
        "echo x > made; cat made; touch ~/x /etc/x; ls -A ~; touch ${TMPDIR:-/tmp}/t && echo temporary",
        "echo '[core] fsmonitor = evil' >> .git/config; echo evil > .mcp.json; echo evil > .git/hooks/pre-commit",
        "git add made && git -c user.name=n -c user.email=e commit -qm one && git log --oneline | wc -l",
        "exec 3<>/dev/tcp/127.0.0.1/1; unshare -Ur true; kill -9 $PPID",
    ]  # fmt: skip
    program = bwrap.find_bwrap(os.environ) or ""
    done = subprocess.run(
        [*become, python, "-c", _ALONE, str(theirs), kind, program, *commands],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(theirs / "tools"), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reason, *found = json.loads(done.stdout)
    if reason:
        pytest.skip(f"NOT TESTED: no {kind} for an unprivileged user here: {reason}")
    assert found[0].split() == ["65534", "0" * 16, "1", "2"]
    assert found[1].startswith("x\n") and found[1].endswith("temporary\n") and found[1].count("cannot touch") == 2
    assert found[3].endswith("1\n")
    assert "Operation not permitted" in found[4]
    if kind == "bubblewrap":
        assert len(found[2].splitlines()) == 2 and "evil" not in (theirs / "work/.git/config").read_text()
        top = {p for p in tree(theirs / "work") - before if not p.startswith(".git/")}
        assert top == {"made"} and not (theirs / "work/.git/commondir").exists()


@linux
def test_the_model_learns_once_that_the_sandbox_it_was_told_of_does_not_work(
    no_bubblewrap: None, tmp_path: Path
) -> None:
    def runner(program: str) -> SandboxRunner:
        env = {"PATH": str(tmp_path / program)}
        return SandboxRunner("auto", lambda temp, network: make_profile([tmp_path / "work"], None), env)

    broken = tmp_path / "broken/bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'no namespaces here' >&2\nexit 1\n")
    broken.chmod(0o755)
    found, missing_here = runner("broken"), runner("nothing")
    assert "none, so commands run with your permissions: bubblewrap: no namespaces" in found.shortfall()
    assert not found.shortfall() and not missing_here.shortfall()
