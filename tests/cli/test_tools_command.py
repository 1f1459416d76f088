"""`agent tools`: one tool from a script, under the same permissions as in a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import agent


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


def test_list_names_every_tool_in_one_line(work: Path) -> None:
    done = agent(["tools", "list"], work)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines][:3] == ["Read", "Write", "Edit"]
    assert all(len(line.split()) > 3 for line in lines)


def test_list_as_json_has_the_schemas(work: Path) -> None:
    done = agent(["tools", "list", "--json"], work)
    tools = {t["name"]: t for t in json.loads(done.stdout)}
    assert tools["Read"]["schema"]["properties"]["file_path"]["type"] == "string"
    assert tools["Grep"]["description"]


def test_a_read_needs_no_permission(work: Path) -> None:
    done = agent(["tools", "run", "Read", '{"file_path": "a.txt"}'], work)
    assert (done.returncode, done.stdout) == (0, "1\tone\n2\ttwo\n")


def test_arguments_from_standard_input(work: Path) -> None:
    done = agent(["tools", "run", "Grep", "--json"], work, stdin='{"pattern": "two"}')
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["is_error"] is False
    assert "a.txt" in data["text"]


def test_hooks_look_at_the_call_and_may_refuse_it(work: Path) -> None:
    home = work.parent / "home"
    home.mkdir()
    hook = '[[hooks]]\nevent = "PreToolUse"\nmatcher = "Read"\ncommand = '
    (home / ".agentrc").write_text(f"{hook}'echo not this >&2; exit 2'\n")
    done = agent(["tools", "run", "Read", '{"file_path": "a.txt"}'], work)
    assert (done.returncode, done.stdout) == (1, "")
    assert "was refused by a hook: not this" in done.stderr
    (home / ".agentrc").write_text(f"{hook}'exit 1'\n")
    done = agent(["tools", "run", "Read", '{"file_path": "a.txt"}'], work)
    assert (done.returncode, done.stdout) == (0, "1\tone\n2\ttwo\n")
    assert "exited with 1, which blocks nothing" in done.stderr


def test_what_would_ask_is_denied_and_the_rule_is_named(work: Path) -> None:
    done = agent(["tools", "run", "Bash", '{"command": "touch made"}'], work)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nobody can approve it here" in done.stderr
    assert "--allowedTools 'Bash(touch made)'" in done.stderr
    assert not (work / "made").exists()


def test_the_rule_that_was_named_allows_it(work: Path) -> None:
    done = agent(["tools", "run", "Bash", '{"command": "touch made"}', "--allowedTools", "Bash(touch made)"], work)
    assert done.returncode == 0, done.stderr
    assert (work / "made").exists()


def test_a_denial_is_reported_in_json_too(work: Path) -> None:
    done = agent(["tools", "run", "Bash", '{"command": "ls"}', "--json", "--disallowedTools", "Bash"], work)
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["is_error"] is True
    assert "denied" in data["text"]


def test_an_edit_needs_no_earlier_read(work: Path) -> None:
    arguments = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
    done = agent(["tools", "run", "Edit", json.dumps(arguments), "--permission-mode", "acceptEdits"], work)
    assert done.returncode == 0, done.stderr
    assert (work / "a.txt").read_text() == "1\ntwo\n"


def test_a_failing_command_is_a_result_with_exit_1(work: Path) -> None:
    done = agent(["tools", "run", "Bash", '{"command": "echo no; exit 3"}', "--allowedTools", "Bash"], work)
    assert done.returncode == 1
    assert done.stdout.startswith("no\n[exit code 3")


def test_a_missing_argument_is_explained(work: Path) -> None:
    done = agent(["tools", "run", "Read", "{}"], work)
    assert done.returncode == 1
    assert "file_path" in done.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Reed", "{}", "Did you mean Read?"),
        ("read", "{}", "Did you mean Read?"),
        ("xyzzy", "{}", "The tools are: Read, Write"),
        ("Read", "{", "not JSON"),
        ("Read", "[1]", "one JSON object"),
        ("Read", "[" * 100_000, "not JSON"),
    ],
)
def test_misuse_is_one_sentence_and_exit_2(work: Path, name: str, arguments: str, words: str) -> None:
    done = agent(["tools", "run", name, arguments], work)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_standard_input_that_is_not_text(work: Path) -> None:
    done = agent(["tools", "run", "Read"], work, stdin=b"\xff\xfe\x00")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr


def test_the_setting_tools_leaves_a_tool_out(work: Path) -> None:
    done = agent(["tools", "run", "Read", '{"file_path": "a.txt"}', "--settings", 'tools = ["Grep"]'], work)
    assert done.returncode == 1
    assert "does not include Read" in done.stderr


def test_a_project_cannot_allow_itself_anything(work: Path) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash"]\n')
    run = ["tools", "run", "Bash", '{"command": "touch made"}']
    done = agent(run, work)
    assert done.returncode == 1
    assert "permissions.allow" in done.stderr
    assert agent([*run, "--trust"], work).returncode == 0
