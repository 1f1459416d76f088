"""Ways around the gate: links on PATH, configurations of git, processes of others, options, starters of programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.kernel.rules import read_rule
from agent_cli.policy.git_use import Use
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.support.repositories import git


def _gate(root: Path, path: str) -> Policy:
    return Policy(Workspace(root), home=str(root.parent), env={"PATH": path})


@pytest.mark.parametrize(("name", "program"), [("cat", "rm"), ("grep", "cat"), ("git", "rm"), ("python", "rm")])
def test_a_link_of_the_workspace_is_not_the_program_whose_name_it_has(root: Path, name: str, program: str) -> None:
    folder = root / ".venv/bin"
    folder.mkdir(parents=True)
    command = {"grep": "grep x src", "git": "git status", "python": "python --version"}.get(name, "cat src/a")
    real = shutil.which(program)
    assert real
    (folder / name).symlink_to(real)
    (root.parent / "bin").symlink_to(folder)
    for place in (folder, root.parent / "bin"):
        decision = _gate(root, f"{place}:/usr/bin:/bin").decide("Bash", [Effect("run", command)])
        assert decision.level is Level.ASK, place
        assert f"{name} is a link of the workspace" in decision.reason


def test_a_program_of_the_workspace_or_of_a_folder_that_moves_is_not_the_usual_one(root: Path) -> None:
    (root / "bin").mkdir()
    shutil.copy("/bin/true", root / "bin/cat")
    for path, reason in (
        (f"{root}/bin:/usr/bin:/bin", f"cat is {root}/bin/cat, a file of the workspace"),
        ("bin:/usr/bin:/bin", "PATH has a folder that is not absolute"),
        (":/usr/bin:/bin", "PATH has a folder that is not absolute"),
    ):
        decision = _gate(root, path).decide("Bash", [Effect("run", "cat a.txt")])
        assert (decision.level, reason in decision.reason) == (Level.ASK, True), path
    assert _gate(root, "/usr/bin:/bin:bin").decide("Bash", [Effect("run", "cat a.txt")]).level is Level.ALLOW


@pytest.mark.parametrize(
    ("helper", "command"),
    [
        ("grep", "egrep x a.txt"), ("git", "ag x"), ("gzip", "tar -tf a.tar.gz"), ("xz", "tar tf a.tar"),
        ("gzip", "zcat a.gz"), ("jq", "yq .x a.yaml"), ("git", "gh pr list"), ("grep", "ls | fgrep x"),
    ],
)  # fmt: skip
def test_a_program_that_another_one_starts_is_not_the_usual_one_either(root: Path, helper: str, command: str) -> None:
    (root / "bin").mkdir()
    shutil.copy("/bin/true", root / "bin" / helper)
    decision = _gate(root, f"{root}/bin:/usr/bin:/bin").decide("Bash", [Effect("run", command)])
    assert decision.level is Level.ASK
    assert f"{helper} is {root}/bin/{helper}, a file of the workspace" in decision.reason


def test_the_python_of_a_virtual_environment_is_python(root: Path) -> None:
    folder = root / ".venv/bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(Path(sys.executable).resolve())
    decision = _gate(root, f"{folder}:/usr/bin:/bin").decide("Bash", [Effect("run", "python --version")])
    assert decision.level is Level.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "cat /proc/1/root/x",
        "echo x < /proc/1/cwd/x",
        "cd /proc/1/cwd",
        "rm /proc/1/cwd/x",
        "ls /proc/*/cwd",
        "rm -r src",
    ],
)
def test_a_link_that_cannot_be_read_is_asked_about(root: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    readlink = os.readlink

    def refuse(path: str) -> str:
        if path.startswith("/proc/1/"):
            raise PermissionError(13, "Permission denied", path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", refuse)
    gate = _gate(root, "/usr/bin:/bin")
    decision = gate.decide("Bash", effects := (Effect("run", command),))
    assert decision.level is Level.ASK
    assert gate.facts("Bash", effects, decision) is not None
    assert gate.at_stake(effects) is not None


_HEADER = '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eDp0b2tlbg==\n'
_URL = '[remote "origin"]\n\turl = https://x-access-token:t0ken@example.org/a.git\n'
_INSTEAD = '[url "https://x:t0ken@example.org/"]\n\tinsteadOf = https://example.org/\n'


@pytest.mark.parametrize(
    ("project", "own", "command", "level"),
    [
        (_HEADER, "", "cat .git/config", Level.ASK),
        (_URL, "", "grep url .git/config", Level.ASK),
        (_URL, "", "git remote -v", Level.ASK),
        (_URL, "", "git remote get-url origin", Level.ASK),
        (_URL, "", "git config --get remote.origin.url", Level.ASK),
        ("", _INSTEAD, "git remote -v", Level.ASK),
        (_URL, "", "git remote", Level.ALLOW),
        (_URL, "", "git status", Level.ALLOW),
        ('[remote "origin"]\n\turl = git@example.org:a.git\n', "", "git remote -v", Level.ALLOW),
        ('[remote "origin"]\n\turl = https://me@example.org/a.git\n', "", "cat .git/config", Level.ALLOW),
    ],
)
def test_a_password_in_the_configuration_of_git_is_not_shown_unasked(
    root: Path, project: str, own: str, command: str, level: Level
) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    with (root / ".git/config").open("a") as config:
        config.write(project)
    (root.parent / ".gitconfig").write_text(own)
    assert _gate(root, "/usr/bin:/bin").decide("Bash", [Effect("run", command)]).level is level


def test_a_search_of_gits_folder_leaves_out_a_password(root: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    readable = _gate(root, "/usr/bin:/bin").readable
    assert readable(root / ".git/config")
    with (root / ".git/config").open("a") as config:
        config.write(_HEADER)
    assert not readable(root / ".git/config")
    command = Effect("run", "grep -r basic .git")
    assert _gate(root, "/usr/bin:/bin").decide("Bash", [command]).level is Level.ASK


@pytest.mark.parametrize("use", ["plain", "trusted"])
@pytest.mark.parametrize(
    "entry",
    [
        "[diff]\n\texternal = ./x", '[diff "a"]\n\ttextconv = ./x', '[filter "a"]\n\tclean = ./x',
        "[include]\n\tpath = /x", "[core]\n\tworktree = /etc",
    ],
)  # fmt: skip
def test_what_git_starts_is_looked_up_before_each_call(tmp_path: Path, entry: str, use: Use) -> None:
    """The configuration was harmless when the session began, or has been trusted since."""
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q")
    gate = Policy(Workspace(root), env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, git_use=use)
    status = [Effect("run", "git status")]
    assert gate.decide("Bash", status).level is Level.ALLOW
    with (root / ".git/config").open("a") as file:
        file.write(f"{entry}\n")
    found = gate.decide("Bash", status)
    assert (found.level, "own git configuration may start a program" in found.reason) == (Level.ASK, True)


@pytest.mark.parametrize("name", ["commondir", "config"])
def test_a_git_folder_that_leads_elsewhere_or_cannot_be_read_is_asked_about(tmp_path: Path, name: str) -> None:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q")
    with (root / ".git" / name).open("a") as file:
        file.write({"commondir": "/etc", "config": "[core\nbroken"}[name])
    gate = Policy(Workspace(root), env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, git_use="plain")
    assert gate.decide("Bash", [Effect("run", "git status")]).level is Level.ASK


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("terraform destroy:*", "terraform -chdir=infra destroy -auto-approve"),
        ("terraform destroy:*", "tofu --x; terraform -chdir infra destroy"),
        ("kubectl delete:*", "kubectl -n prod delete pod x"),
        ("kubectl delete:*", "kubectl --context c -n prod -v=6 delete pod x"),
        ("kubectl delete:*", "kubectl --insecure-skip-tls-verify delete pod x"),
        ("docker system prune:*", "docker --context c system prune -af"),
        ("npm publish:*", "npm --silent publish"),
        ("gh pr merge:*", "gh -R a/b pr merge 1"),
        ("aws s3 rm:*", "timeout 5 aws --profile p s3 rm s3://x"),
    ],
)
def test_a_deny_rule_holds_behind_options_before_the_subcommand(tmp_path: Path, rule: str, command: str) -> None:
    rules = [read_rule("allow", "Bash", "test", tmp_path), read_rule("deny", f"Bash({rule})", "test", tmp_path)]
    policy = Policy(Workspace(tmp_path), rules)
    assert policy.decide("Bash", (Effect("run", command),)).level is Level.DENY
    short = rule.removesuffix(":*").split()[0]
    for other in (f"{short} -x", f"{short} --help", f"{short} -n list", f"{short} show"):
        assert policy.decide("Bash", (Effect("run", other),)).level is not Level.DENY


@pytest.mark.parametrize(
    "command",
    [
        "cross-env A=1 rm a", "dotenvx run -- rm a", "op run -- rm a", "doppler run -- rm a", "concurrently 'rm a' ls",
        "npx concurrently 'rm a'", "uv run bash -c 'rm a'", "poetry run env X=1 rm a",
        "npx cross-env A=1 rm a", "pnpm dlx nodemon -x 'rm a'", "uv run parallel rm ::: a",
        "dumb-init rm a", "run-p clean", "aws-vault exec p -- rm a",
    ],
)  # fmt: skip
def test_what_runs_other_commands_is_not_allowed_past_a_deny_rule(tmp_path: Path, command: str) -> None:
    rules = [read_rule("allow", "Bash", "test", tmp_path), read_rule("deny", "Bash(rm:*)", "test", tmp_path)]
    decision = Policy(Workspace(tmp_path), rules).decide("Bash", (Effect("run", command),))
    assert decision.level is not Level.ALLOW
