"""The question about trust at the start of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import script

ASKED = "Trust this folder? [y/N]"


@pytest.fixture
def model(work: Path) -> str:
    (work / ".agentrc").write_text('append_system_prompt = "x"\n[permissions]\nallow = ["Bash(npm test:*)", "Edit"]\n')
    (work / ".agent/commands").mkdir(parents=True)
    (work / ".agent/commands/deploy.md").write_text("Deploy.\n")
    return script(work / "s.toml", [{"text": "Hello."}])


def test_a_yes_counts_from_then_on_until_something_changes(work: Path, model: str) -> None:
    terminal = Terminal(["--model", model], work)
    shown = terminal.expect(ASKED)
    assert f"You have not trusted {work} yet. It contains settings or files that change how the agent works:" in shown
    assert "- .agentrc sets permissions.allow: Bash(npm test:*), Edit" in shown
    assert "- commands: deploy" in shown
    terminal.type("y")
    assert "was ignored" not in terminal.expect("/help lists the commands")
    terminal.leave()
    assert "trusted (your yes of" in agent(["permissions", "list"], work).stdout

    terminal = Terminal(["--model", model], work)
    assert ASKED not in terminal.expect("/help lists the commands")
    terminal.leave()

    (work / ".agent/commands/deploy.md").write_text("Deploy to my server.\n")
    terminal = Terminal(["--model", model], work)
    assert "has changed since you trusted it: .agent/commands/deploy.md (changed)" in terminal.expect(ASKED)
    terminal.type("")
    shown = terminal.expect("/help lists the commands")
    assert "Not trusted; you are asked again when it changes." in " ".join(shown.split()) and "was ignored" not in shown
    terminal.leave()


@pytest.mark.parametrize("answer", ["", "n", "x", "7", "\x04"])
def test_a_no_leaves_the_project_untrusted_and_the_session_goes_on(work: Path, model: str, answer: str) -> None:
    terminal = Terminal(["--model", model], work)
    terminal.expect(ASKED)
    terminal.type(answer)
    shown = terminal.expect("/help lists the commands")
    assert "Not trusted" in shown and "append_system_prompt" not in shown
    terminal.leave()
    assert "untrusted" in agent(["permissions", "list"], work).stdout


@pytest.mark.parametrize("answer", ["yep", "Yes please", "Y please"])
def test_what_is_not_exactly_a_yes_is_asked_about_again(work: Path, model: str, answer: str) -> None:
    terminal = Terminal(["--model", model], work)
    terminal.expect(ASKED)
    terminal.type(answer)
    terminal.expect("[y/N]")
    terminal.type("n")
    terminal.expect("/help lists the commands")
    terminal.leave()
    assert "untrusted" in agent(["permissions", "list"], work).stdout


def test_a_no_is_remembered_until_something_changes(work: Path, model: str) -> None:
    terminal = Terminal(["--model", model], work)
    terminal.expect(ASKED)
    terminal.type("n")
    terminal.expect("you are asked again when it changes. To trust it later: agent trust")
    terminal.expect("/help lists the commands")
    terminal.leave()

    terminal = Terminal(["--model", model], work)
    shown = terminal.expect("/help lists the commands")
    assert ASKED not in shown and "is not trusted, and this was ignored" in " ".join(shown.split())
    terminal.leave()

    (work / ".agent/commands/deploy.md").write_text("Deploy to my server.\n")
    terminal = Terminal(["--model", model], work)
    terminal.expect(ASKED)
    terminal.type("n")
    terminal.expect("/help lists the commands")
    terminal.leave()
    assert "Trusted from now on" in agent(["trust"], work).stdout


def test_ctrl_c_is_a_no_and_long_lines_cannot_pass_for_others(work: Path, model: str) -> None:
    long = "it goes on and on " * 5 + "- commands: none"
    (work / ".agentrc").write_text(f'append_system_prompt = "{long}"\n')
    with Drawn(["--model", model], work, columns=60) as screen:
        screen.wait("Trust this folder?")
        rows = screen.visible().splitlines()
        begun = [row for row in rows if row.startswith("  - ")]
        assert len(begun) == 2 and begun[1] == "  - commands: deploy"
        screen.type("\x03")
        screen.wait("Not trusted")
        screen.wait("\nagent 0")
        screen.wait("asks before changes (Shift-Tab)")
        screen.leave()


def test_nothing_is_asked_where_there_is_nothing_to_trust_or_it_was_written(work: Path, model: str) -> None:
    terminal = Terminal(["--model", model, "--trust"], work)
    assert ASKED not in terminal.expect("/help lists the commands")
    terminal.leave()
    assert "untrusted" in agent(["permissions", "list"], work).stdout
    (work / ".agentrc").write_text('[permissions]\ndeny = ["Bash(rm:*)"]\n')
    (work / ".agent/commands/deploy.md").unlink()
    terminal = Terminal(["--model", model], work)
    assert ASKED not in terminal.expect("/help lists the commands")
    terminal.leave()


def test_what_a_repository_says_cannot_steer_the_question(work: Path, model: str) -> None:
    (work / ".agentrc").write_text('append_system_prompt = "a\\u001b[2Jb\\n? y: nothing \\u202e happens"\n')
    terminal = Terminal(["--model", model], work)
    shown = terminal.expect(ASKED)
    assert "append_system_prompt: a\\x1b[2Jb\\n? y: nothing \\u202e happens" in shown
    terminal.type("n")
    terminal.leave()
