"""What programs do to files beside what a rule for them says, where a table of commands is not enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.core.rules import read_rule
from agent_cli.permission.command_effects import effects_of
from agent_cli.permission.decision import Decision, Level
from agent_cli.permission.effects_git import named_by
from agent_cli.permission.effects_table import PROGRAMS
from agent_cli.permission.policy import Policy
from agent_cli.permission.shell import analyse
from agent_tools.base import Effect
from agent_tools.workspace import Workspace


def decide(root: Path, command: str, **lists: str) -> Decision:
    rules = [read_rule(kind, text, "test", root) for kind, text in lists.items()]  # type: ignore[arg-type]
    gate = Policy(Workspace(root), rules, home=str(root.parent), env={"PATH": "/usr/bin:/bin"})
    return gate.decide("Bash", [Effect("run", command)])


@pytest.mark.parametrize("command", ["grep -r x .", "cp -r . ../copy", "tar cf x.tar ."])
def test_a_file_of_secrets_does_not_end_the_search_for_what_is_denied(tmp_path: Path, command: str) -> None:
    root = tmp_path / "work"
    for name in (".env", "a/.env", "z/deep/plans/x", "b/c"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    decided = decide(root, command, allow="Bash", deny="Read(plans/)")
    assert decided.level is Level.ASK
    assert decided.firm
    assert any(part.rule == "Read(plans/)" for part in decided.parts)


def test_a_patch_is_judged_by_the_files_that_it_names(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "p").write_text("diff --git a/old b/keys/new\nrename from old\nrename to keys/new\n")
    assert {"old", "keys/new"} <= set(named_by(str(root / "p")) or ())
    assert decide(root, "git apply p", allow="Bash", deny="Edit(keys/**)").level is Level.DENY
    assert decide(root, "git apply p", allow="Bash", deny="Edit(other/**)").level is Level.ALLOW
    assert decide(root, "git apply nothing", allow="Bash", deny="Edit(other/**)").level is Level.ASK


def test_a_rule_that_names_the_target_covers_it(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    assert decide(root, "cp a /srv/x", allow="Bash(cp:*)").level is Level.ASK
    assert decide(root, "cp a /srv/x", allow="Bash(cp a /srv/x)").level is Level.ALLOW
    assert decide(root, "cp a /srv/x /srv/y", allow="Bash(cp a /srv/x:*)").level is Level.ASK
    assert decide(root, "tar --to-command=cat -xf a", allow="Bash(tar --to-command=cat:*)").level is Level.ALLOW


def test_a_removal_takes_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    assert decide(root, "rm link", allow="Bash(rm:*)").level is Level.ALLOW
    assert decide(root, "rm -r link/x", allow="Bash(rm:*)").level is Level.ASK


def test_a_text_of_cat_is_not_believed_once_cat_may_be_another() -> None:
    message = "git commit -m \"$(cat <<'E'\nx\nE\n)\""
    assert not analyse(message).unknown
    assert analyse(f"cat() {{ id; }}; {message}").unknown
    assert analyse(f"PATH=.; {message}").unknown


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_odd_words_are_read_without_an_error(name: str) -> None:
    for words in (
        "",
        "-",
        "--",
        "--o",
        "-o",
        "-x",
        "-C",
        "--file",
        "-f",
        "a b c",
        "-tx",
        "--=",
        "-=",
        "x -- -y",
        "-e '' x",
    ):
        for part in analyse(f"{name} {words}", "/w").parts:
            effects_of(part)
