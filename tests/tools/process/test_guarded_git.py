"""The one place that starts git: what each kind of run is given, and that nothing else starts it."""

from __future__ import annotations

import ast
import os
import subprocess
import time
from pathlib import Path

import pytest

from agent_tools.process.guarded_git import (
    SAFE_SETTINGS,
    Checkout,
    GitError,
    GitRun,
    checked_git,
    fetching_git,
    find_git,
    hardened_variables,
    isolated_git,
    store_git,
    user_git,
    user_settings_git,
    without_filters,
)  # fmt: skip
from tests.support.hostile.git import begin, config
from tests.support.hostile.settings import marker, program
from tests.support.program_files import MODULES, tree
from tests.support.repositories import git

GIT = find_git(os.environ["PATH"], "/nowhere")
# What /commit uses of GitPython: it reads files and starts nothing.
_READ_BY_GITPYTHON = {"working_tree_dir", "git_dir", "common_dir"}
_FINDING = ("find_git", "find_snapshot_git", "which")
_STARTING = ("exec", "spawn", "posix_spawn", "system", "popen")
# What a caller's environment may have, and no git process of the program gets.
POISON = {
    "GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_PARAMETERS": "'a.b=c'",
    "GIT_SSH": "/x", "GIT_SSH_COMMAND": "/x", "GIT_EXTERNAL_DIFF": "/x", "GIT_TRACE": "/x", "GIT_EXEC_PATH": "/x",
    "GIT_PAGER": "/x", "GIT_TEMPLATE_DIR": "/x", "GIT_PROXY_COMMAND": "/x", "GIT_EDITOR": "/x", "GIT_ASKPASS": "/x",
    "GIT_WORK_TREE": "/x", "API_KEY": "x", "ANTHROPIC_API_KEY": "sk-ant-api03-x", "GITHUB_TOKEN": "ghs_x",
    "INPUT_JSON": "{}", "INPUT_TOKEN": "x", "NPM_TOKEN": "x", "DATABASE_URL": "postgres://u:secret@h/db",
    "LD_PRELOAD": "/x", "PYTHONSTARTUP": "/x", "BASH_ENV": "/x",
}  # fmt: skip


def starts_of_git(source: ast.AST) -> list[str]:
    """Code that starts a program named git, by a list of words or a line of a shell, or prepares such a start."""
    every = list(ast.walk(source))
    names = {"git"}
    for node in every:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func) as call):
                names |= {name} if _last_name(func) in _FINDING and "git" in ast.unparse(call) else set()
    found = []
    for node in every:
        match node:
            case ast.List(elts=words, ctx=ast.Load()) | ast.Tuple(elts=words, ctx=ast.Load()) if words:
                # A single word is no command, but a list of names.
                starts = isinstance(words[0], ast.Name | ast.Starred) or (isinstance(node, ast.List) and len(words) > 1)
                is_start = starts and _is_git(words[0], names)
                is_line = isinstance(node, ast.List) and any(_text(word).startswith("git ") for word in words)
            case ast.Call(func=ast.Attribute(attr=attr), args=[first, *_]) if attr.startswith(_STARTING):
                is_start, is_line = _is_git(first, names), _text(first).startswith("git ")
            case ast.Call(func=func):
                is_start, is_line = _last_name(func) == "GitRun", False
            case _:
                continue
        found += [ast.unparse(node)] if is_start or is_line else []
    return found


def uses_of_gitpython(source: ast.AST) -> list[str]:
    """Attributes of GitPython's repository that may start git."""
    reads = (n for n in ast.walk(source) if isinstance(n, ast.Attribute) and _last_name(n.value) in ("repo", "_repo"))
    return [ast.unparse(node) for node in reads if node.attr not in _READ_BY_GITPYTHON]


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return str(name)
    return ""


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_git(word: ast.AST, names: set[str]) -> bool:
    return _text(word).rpartition("/")[2] == "git" or (isinstance(word, ast.Name) and word.id in names)


def test_nothing_else_starts_git() -> None:
    own = "agent_tools.process.guarded_git"
    files = {name: path for name, path in MODULES.items() if name != own and "git" in path.read_text("utf-8").lower()}
    found = {name: starts_of_git(tree(path)) for name, path in files.items()}
    assert {name: places for name, places in found.items() if places} == {}
    assert uses_of_gitpython(tree(MODULES["agent_cli.git.repository"])) == []


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.run(['git', 'status'])",
        "run_child(['/usr/bin/git', 'status'])",
        "git = shutil.which('git')\nsubprocess.run([git, *quiet, *words])",
        "program = find_git(path, root)\nstart_child([program, 'add'])",
        "os.posix_spawn('git', ['git'], env)",
        "os.system('git add --all')",
        "run_child(['sh', '-c', 'git add --all'])",
        "GitRun(program, '/', env)",
    ],
)
def test_a_start_of_git_is_seen(source: str) -> None:
    assert starts_of_git(ast.parse(source))


@pytest.mark.parametrize("source", ["repo.git.status()", "self._repo.index.add(['x'])", "repo.is_dirty()"])
def test_a_start_by_gitpython_is_seen(source: str) -> None:
    assert uses_of_gitpython(ast.parse(source))


def test_gitpython_starts_nothing(root: Path) -> None:
    import git as gitpython

    from agent_cli.git.repository import Repository

    Repository(root, env(root))
    with pytest.raises((gitpython.GitCommandNotFound, PermissionError)):
        gitpython.Git(root).version()


def test_no_environment_is_inherited(root: Path) -> None:
    poisoned = {**env(root), **POISON}
    store = str(root.parent / "store")
    runs = [
        isolated_git(GIT), user_settings_git(GIT, poisoned), store_git(GIT, store), fetching_git(GIT, store, poisoned),
        checked_git(GIT, checkout(root), poisoned), user_git(GIT, checkout(root), poisoned),
    ]  # fmt: skip
    for run in runs:
        assert not {name for name, value in run.env.items() if POISON.get(name) == value}
        assert run.env["PATH"]


def test_a_commit_has_the_variables_that_hooks_and_signatures_need(root: Path) -> None:
    given = {
        "HOME": "/h", "LANG": "C.UTF-8", "LC_TIME": "C", "SSH_AUTH_SOCK": "/s", "GPG_TTY": "/dev/pts/1",
        "NVM_DIR": "/n", "VIRTUAL_ENV": "/v", "XDG_CONFIG_HOME": "/c", "SKIP": "lint", "GIT_AUTHOR_EMAIL": "a@b",
        "HTTPS_PROXY": "http://p:1",
    }  # fmt: skip
    assert user_git(GIT, checkout(root), given).env.items() >= given.items()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    begin(folder)
    return folder


def checkout(root: Path) -> Checkout:
    return Checkout(str(root), f"{root}/.git", f"{root}/.git")


def env(root: Path) -> dict[str, str]:
    (root.parent / "home").mkdir(exist_ok=True)
    return {"PATH": f".:bin:{os.environ['PATH']}", "HOME": str(root.parent / "home"), "GIT_TRACE": "1", "API_KEY": "x"}


def test_a_checked_run_starts_none_of_the_programs_that_are_configured(root: Path) -> None:
    evil = program(root, "evil.sh")
    keys = "".join(f"\t{key} = {evil}\n" for key in ("fsmonitor", "pager", "editor", "sshCommand", "askPass"))
    config(root, f"[core]\n{keys}\thooksPath = {root}\n[diff]\n\texternal = {evil}\n[pager]\n\tlog = {evil}\n")
    config(root, f'[diff "evil"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[alias]\n\tstatus = !{evil}\n')
    program(root, "post-index-change")
    for words in (("status",), ("diff",), ("log", "-p"), ("show",), ("grep", "two")):
        checked_git(GIT, checkout(root), env(root), locks=True).run(*words)
    assert not marker(root).exists()


def test_filters_are_switched_off_by_name(root: Path) -> None:
    evil = program(root, "evil.sh")
    config(root, f'[filter "evil"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n')
    run = checked_git(GIT, checkout(root), env(root))
    off = run.with_settings(without_filters(run))
    assert "a.txt" in off.run("status", "--porcelain").decode()
    assert "+two" in off.run("diff").decode()
    assert not marker(root).exists()
    with pytest.raises(GitError):
        run.run("status")
    assert marker(root).exists()


def test_a_filter_with_a_name_that_cannot_be_given_fails(root: Path) -> None:
    config(root, '[filter "a=b"]\n\tclean = x\n')
    with pytest.raises(GitError, match="cannot be disabled"):
        without_filters(checked_git(GIT, checkout(root), env(root)))


def test_the_repository_is_the_one_that_was_looked_at(root: Path) -> None:
    run = checked_git(GIT, checkout(root), env(root))
    (root / "inner").mkdir()
    begin(root / "inner")
    assert run.run("rev-parse", "--show-toplevel", cwd=str(root / "inner")).decode().strip() == str(root)
    (root / ".git").rename(root / "gone")
    git(root.parent, "init", "-q")
    with pytest.raises(GitError, match="not a git repository"):
        run.run("status")


def test_variables_of_the_user_that_lead_git_astray_are_not_handed_on(root: Path) -> None:
    astray = {**env(root), "GIT_DIR": "/x", "GIT_INDEX_FILE": "/x", "GIT_CONFIG_COUNT": "1", "GIT_SSH": "/x"}
    found = checked_git(GIT, checkout(root), astray).env
    assert found["GIT_DIR"] == f"{root}/.git"
    assert not {"GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "GIT_SSH", "GIT_TRACE", "API_KEY"} & found.keys()
    assert all(folder.startswith("/") for folder in found["PATH"].split(":"))


def test_nothing_is_configured_nowhere_and_in_a_store(root: Path) -> None:
    assert isolated_git(GIT).run("config", "--list", cwd=str(root)) == b""
    (root.parent / "store/objects").mkdir(parents=True)
    assert "GIT_CONFIG_GLOBAL" in store_git(GIT, str(root.parent / "store"), ["/a:b"]).env
    assert store_git(GIT, "/x", ["/a:b", "/c"]).env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] == '"/a:b":/c'


def test_the_variables_of_a_hardened_command_do_what_a_checked_run_does(root: Path) -> None:
    evil = program(root, "evil.sh")
    config(root, f"[core]\n\tfsmonitor = {evil}\n\thooksPath = {root}\n\tpager = {evil}\n")
    hard = hardened_variables(str(root), checkout(root), {})
    done = subprocess.run(["git", "status"], cwd=root, env={**env(root), **hard}, capture_output=True, check=True)
    assert b"a.txt" in done.stdout
    assert hard["GIT_CONFIG_COUNT"] == str(len(SAFE_SETTINGS))
    assert not marker(root).exists()
    assert hardened_variables("/a/b", None, {})["GIT_CEILING_DIRECTORIES"] == "/a"


def test_time_and_output_are_bounded(tmp_path: Path) -> None:
    slow = GitRun("/bin/sh", "/", {"PATH": os.defpath})
    began = time.monotonic()
    with pytest.raises(GitError, match=r"took more than 0\.2 s"):
        slow.run("-c", f"(sleep 30; touch {tmp_path}/late) & cat", seconds=0.2)
    with pytest.raises(GitError, match="printed more than 1,000 bytes"):
        slow.run("-c", "yes", most=1000)
    assert time.monotonic() - began < 15
    assert slow.run("-c", "cat", feed=b"x" * 300_000) == b"x" * 300_000
    assert slow.run("-c", "exec <&-; echo y", feed=b"x" * 300_000) == b"y\n"
    with pytest.raises(GitError, match="no such thing") as caught:
        slow.run("-c", "echo fatal: no such thing >&2; exit 3")
    assert caught.value.code == 3
    with pytest.raises(GitError, match="cannot be started in /nowhere"):
        GitRun(GIT, "/nowhere", {}).run("version")


def test_git_is_found_outside_of_the_project_only(tmp_path: Path) -> None:
    for folder in ("bin", "work/bin"):
        (tmp_path / folder).mkdir(parents=True)
        program(tmp_path, f"{folder}/git")
    path = f".:bin:{tmp_path}/work/bin:{tmp_path}/bin"
    assert find_git(path, f"{tmp_path}/work") == f"{tmp_path}/bin/git"
    with pytest.raises(GitError, match="not installed"):
        find_git(f"{tmp_path}/work/bin", f"{tmp_path}/work")
