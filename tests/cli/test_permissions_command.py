"""`agent permissions list` and `agent trust`: the rules in force, where they come from, and whom the user trusts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import agent


@pytest.fixture
def project(work: Path) -> Path:
    (work.parent / "home").mkdir()
    (work.parent / "home/.agentrc").write_text('[permissions]\nmode = "acceptEdits"\nallow = ["Bash(uname)"]\n')
    (work / ".agentrc").write_text(
        '[permissions]\nallow = ["Bash(make:*)"]\n[[permissions.rules]]\nlist = "deny"\nrule = "Bash(rm:*)"\n'
        'why = "keep it"\nmatch = ["rm x"]\n'
    )
    return work


def test_rules_with_reason_and_source(project: Path) -> None:
    done = agent(["permissions", "list", "--disallowedTools", "Bash(dd:*)", "--askTools", "Edit"], project)
    assert done.returncode == 0
    home = project.parent / "home"
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["mode", "acceptEdits", f"({home}/.agentrc)"],
        ["workspace", str(project)],
        ["trust", "untrusted"],
        [],
        ["LIST", "RULE", "FROM", "WHY"],
        ["deny", "Bash(rm:*)", f"{project}/.agentrc:5", "keep", "it"],
        ["deny", "Bash(dd:*)", "--disallowedTools"],
        ["ask", "Edit", "--askTools"],
        ["allow", "Bash(uname)", f"{home}/.agentrc:3"],
    ]
    assert ".agentrc (permissions.allow)" in done.stderr


def test_as_json(project: Path) -> None:
    found = json.loads(agent(["permissions", "list", "--json", "--trust", "--permission-mode", "plan"], project).stdout)
    assert found["mode"] == {"value": "plan", "source": "the command line"}
    assert found["trust"] == {"state": "trusted", "by": "--trust, for this run"}
    assert found["rules"][0] == {
        "list": "deny",
        "rule": "Bash(rm:*)",
        "why": "keep it",
        "source": f"{project}/.agentrc:5",
        "match": ["rm x"],
        "not_match": [],
    }
    assert [r["rule"] for r in found["rules"][1:]] == ["Bash(uname)", "Bash(make:*)"]


def test_no_rules(work: Path) -> None:
    assert "There are no rules." in agent(["permissions", "list"], work).stdout


def test_trust_is_shown_given_listed_and_taken_back(project: Path) -> None:
    shown = agent(["trust", "--show"], project).stdout
    assert shown.splitlines() == [f"{project}: untrusted", "  .agentrc sets permissions.allow: Bash(make:*)"]
    assert "No repository is trusted" in agent(["trust", "--list"], project).stdout
    assert "Trusted from now on" in agent(["trust"], project).stdout
    assert str(project) in agent(["trust", "--list"], project).stdout
    assert "Bash(make:*)" in agent(["permissions", "list"], project).stdout
    assert "is no longer trusted" in agent(["trust", "--revoke"], project).stdout
    assert "was not trusted" in agent(["trust", "--revoke"], project).stdout
    assert "Bash(make:*)" not in agent(["permissions", "list"], project).stdout


def test_another_folder_can_be_named(project: Path, tmp_path: Path) -> None:
    (project / "src").mkdir()
    assert f"{project}: untrusted" in agent(["trust", str(project / "src")], tmp_path / "home").stdout
    assert "Bash(make:*)" in agent(["permissions", "list"], project).stdout
    assert agent(["trust", "nowhere"], project).returncode == 2


def test_what_cannot_be_kept_is_a_mistake(project: Path) -> None:
    done = agent(["trust"], project, env={"AGENT_STATE_DIR": "/dev/null/x"})
    assert done.returncode == 2
    assert "cannot be saved" in done.stderr


def test_options_of_check_hold_for_every_line_of_a_batch(work: Path) -> None:
    lines = [
        {"id": 1, "input": {"command": "rm x"}},
        {"id": 2, "input": {"command": "make x"}, "deny": ["Bash(make:*)"]},
        {"id": 3, "input": {"command": "touch x"}, "mode": "default"},
        {"id": 4, "input": {"command": "touch x"}},
    ]
    options = ["--batch", "--tool", "Bash", "--deny", "Bash(rm:*)", "--allow", "Bash(make:*)", "--mode", "acceptEdits"]
    done = agent(["permissions", "check", *options], work, stdin="\n".join(json.dumps(line) for line in lines))
    assert [json.loads(line)["decision"] for line in done.stdout.splitlines()] == ["deny", "deny", "ask", "allow"]


def test_a_batch_takes_no_input_of_one_call(work: Path) -> None:
    done = agent(["permissions", "check", "--batch", "--input", "{}"], work, stdin="")
    assert done.returncode == 2
    assert "leave out --input" in done.stderr


def test_a_check_without_a_call_says_how_one_is_named(work: Path) -> None:
    done = agent(["permissions", "check"], work)
    assert done.returncode == 2
    assert done.stderr == "agent: Name the call to explain, as in: agent permissions check 'git push'\n"


def test_a_command_line_is_checked_as_it_is_written(work: Path) -> None:
    done = agent(["permissions", "check", "rm -r build && ls"], work)
    assert done.stdout.startswith("ask: the call runs a command")
    assert "allow  ls" in done.stdout
    as_json_input = agent(["permissions", "check", "--tool", "Bash", "--input", '{"command": "ls"}'], work)
    assert agent(["permissions", "check", "ls"], work).stdout == as_json_input.stdout


@pytest.mark.parametrize("more", [["--tool", "Read"], ["--input", "{}"], ["--batch"]])
def test_a_command_line_and_another_call_are_not_checked_together(work: Path, more: list[str]) -> None:
    done = agent(["permissions", "check", "ls", *more], work, stdin="")
    assert done.returncode == 2
    assert done.stderr == "agent: Give either a command line, or a call by --tool, --input or --batch.\n"


def test_a_store_of_trust_that_cannot_be_read_is_named_with_the_reason(work: Path) -> None:
    state = work.parent / "home/state"
    state.mkdir(parents=True)
    (state / "trust.json").symlink_to("trust.json")
    done = agent(["permissions", "list"], work)
    assert f"{state}/trust.json cannot be read (Too many levels of symbolic links), so the trust" in done.stderr


def test_a_project_that_has_nothing_to_trust_is_called_that(work: Path) -> None:
    assert "trust      nothing to trust" in agent(["permissions", "list"], work).stdout
    assert agent(["trust", "--show"], work).stdout == f"{work}: nothing to trust\n"
