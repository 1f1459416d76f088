"""Skills, types of sub-agents, shipped commands and review gates in a session on a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.support.extension_files import home_of, put, skill
from tests.support.plans import plan
from tests.support.pty_screen import Drawn
from tests.support.pty_session import Terminal
from tests.support.scripts import call, script


def test_what_files_add_is_listed_and_used(work: Path) -> None:
    skill(home_of(work), "pdf", "Turn the page. !`cat a.txt`")
    put(
        home_of(work),
        ".agent/agents/critic.md",
        "---\nname: critic\ndescription: Finds fault.\ntools: Read\n"
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: ./check.sh}]\n"
        "---\nBe strict.",
    )
    model = script(work.parent / "s.toml", [{"text": "Turned.", "expect": "Turn the page. hello world"}])
    terminal = Terminal(["--model", model], work)
    terminal.ready()
    terminal.type("/skills")
    terminal.expect("For pdf.")
    terminal.ready()
    terminal.type("/agents")
    terminal.expect("critic.md")
    terminal.ready()
    terminal.type("/hooks")
    terminal.expect("runs in the agent critic")
    terminal.ready()
    terminal.type("/help")
    terminal.expect("/security-review")
    terminal.ready()
    terminal.type("/pdf")
    terminal.expect("Turned.")
    terminal.leave()


def test_a_command_in_a_prompt_is_asked_about(work: Path) -> None:
    put(home_of(work), ".agent/commands/make.md", "Made: !`touch made`")
    model = script(work.parent / "s.toml", [{"text": "So it is.", "expect": "Made: (no output)"}])
    terminal = Terminal(["--model", model], work)
    for answer, text in (("n", "/make was not sent"), ("y", "So it is.")):
        terminal.ready()
        terminal.type("/make")
        terminal.expect("Allow? ")
        terminal.type(answer)
        terminal.expect(text)
    assert (work / "made").exists()
    terminal.leave()


def test_a_step_is_looked_at_and_sent_back(work: Path) -> None:
    (work.parent / "home").mkdir(exist_ok=True)
    (work.parent / "home/.agentrc").write_text('review = "step"\n')
    replies = [
        {"calls": [plan("in_progress", "pending")]},
        {"calls": [call("Write", file_path="b.txt", content="x\n")]},
        {"calls": [plan("completed", "in_progress")]},
        {"calls": [plan("completed", "in_progress")], "expect": "said: louder please"},
        {"text": "And then?", "expect": "reviewed this step and approved it"},
    ]
    model = script(work.parent / "s.toml", replies)
    terminal = Terminal(["--model", model, "--permission-mode", "acceptEdits", "go"], work)
    terminal.expect("done: step 1")
    terminal.expect("Continue?")
    terminal.type("louder please")
    terminal.expect("1 step of the plan is done.")
    terminal.expect("Continue?")
    terminal.type("y")
    terminal.expect("And then?")
    terminal.leave()


def test_gates_and_commands_in_prompts_in_the_application(work: Path) -> None:
    put(home_of(work), ".agent/commands/make.md", "Made: !`touch made`")
    (work.parent / "home/.agentrc").write_text('review = "step"\n')
    replies = [
        {"calls": [plan("in_progress", "pending")], "expect": "Made: (no output)"},
        {"calls": [plan("completed", "in_progress")]},
        {"calls": [plan("completed", "in_progress")], "expect": "said: louder please"},
        {"text": "And then?", "expect": "reviewed this step and approved it"},
    ]
    with Drawn(["--model", script(work.parent / "s.toml", replies)], work) as screen:
        screen.ready()
        screen.line("/make")
        screen.wait("❯ y  Yes")
        screen.rest()
        screen.type("y")
        screen.wait("done: step 1")
        assert (work / "made").exists()
        screen.rest()
        screen.type("r")
        screen.wait("change>")
        screen.line("louder please")
        screen.wait("→ change it: louder please")
        screen.wait("Yes, continue")
        screen.rest()
        screen.type("y")
        screen.wait("And then?")
        screen.gone("interrupt")
        screen.leave()
