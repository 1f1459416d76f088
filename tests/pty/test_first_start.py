"""The first start: what is asked once, and that the answers stay."""

from __future__ import annotations

import json
import termios
from pathlib import Path

import pytest

from tests.support.model_server import ModelServer, Reply
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.sandboxes import missing
from tests.support.scripts import call, script


def test_the_first_start_asks_which_model_and_keeps_the_answer(work: Path) -> None:
    keys = {"ANTHROPIC_API_KEY": "sk-ant-none", "OPENAI_API_KEY": "sk-none"}
    with Drawn([], work, rows=90, **keys) as screen:
        screen.wait("Which model?")
        screen.wait("type to filter")
        screen.line("openai")
        screen.wait("saved as `model`")
        screen.wait("asks before changes (Shift-Tab) · openai/")
        screen.line("/status")
        screen.wait(f"settings   {work.parent / 'home' / '.agentrc'}")
        screen.line("/doctor")
        screen.wait("sets model")
        assert "problem  settings" not in screen.text() and "another file is broken" not in screen.text()
        screen.type("q")
        screen.rest()
        screen.leave()
    kept = (work.parent / "home" / ".agentrc").read_text()
    assert kept.startswith('model = "openai/')
    with Drawn([], work, **keys) as screen:
        screen.wait("asks before changes (Shift-Tab) · openai/")
        assert "Which model?" not in screen.text()
        screen.leave()


def test_each_session_of_a_project_shows_another_tip(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "Hello."}])
    tips = []
    for _ in range(3):
        with Drawn(["--model", model, "hi"], work) as screen:
            screen.wait("✓ ")
            tips += [line.strip() for line in screen.text().splitlines() if line.startswith("  Tip: ")]
            screen.leave()
    assert len(set(tips)) == len(tips) >= 2, tips


def test_the_first_approval_says_once_what_the_sandbox_and_trust_mean(work: Path) -> None:
    touch = [{"calls": [call("Bash", command=f"touch {name}")]} for name in "ab"]
    with Drawn(["--model", script(work.parent / "s.toml", [*touch, {"text": "Done."}])], work) as screen:
        screen.wait("asks before changes (Shift-Tab)")
        screen.line("go")
        for name in "ab":
            screen.wait(f"touch {name}")
            screen.rest()
            screen.type("y")
        screen.wait("Done.")
        shown = " ".join(screen.text().split())
        assert shown.count("There is no sandbox here: commands that you allow can do what you can do.") == 1
        assert shown.count("Trusting a project means using its own settings, hooks and commands.") == 1
        screen.leave()


@pytest.mark.parametrize("task", ["fix the failing tests", "refactor", "Aufräumen", "y/n prompts"])
def test_a_task_typed_at_the_first_question_is_sent_once_the_session_begins(work: Path, task: str) -> None:
    with ModelServer([Reply(text="On it.")]) as server:
        keys = {"ANTHROPIC_API_KEY": "sk-ant-none", "OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": server.openai_url}
        with Drawn([], work, **keys) as screen:
            screen.wait("type to filter")
            screen.line(task)
            screen.wait(f"queued: {task}")
            screen.gone("no match")
            screen.line("openai")
            screen.wait("saved as `model`")
            screen.wait("On it.")
            screen.gone("to interrupt")
            # The first rows wait for the terminal's answer about its background.
            screen.wait(f"> {task}")
            before, answer, after = screen.text().partition("On it.")
            assert f"> {task}" in before and answer and "queued" not in after
            assert screen.input_line() == ">"
            screen.type("\x1b[A")
            screen.until(lambda: screen.input_line() == f"> {task}", "the message from the history")
            screen.clear()
            screen.leave()
        assert task in json.dumps(server.requests[0].body, ensure_ascii=False)


@pytest.mark.parametrize("task", ["refactor", "please, y then n"])
def test_a_task_typed_at_the_question_of_trust_is_sent(work: Path, task: str) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    with Drawn(["--model", script(work.parent / "s.toml", [{"text": "On it."}])], work) as screen:
        screen.wait("Trust this folder?")
        screen.rest()
        screen.line(task)
        screen.wait(f"queued: {task}")
        screen.rest(GRAVE_REST)
        screen.type("y")
        screen.wait("? Trust this folder? → yes")
        screen.wait("On it.")
        screen.wait(f"> {task}")
        screen.until(lambda: screen.input_line() == ">", "the empty line")
        screen.leave()


def test_tasks_that_wait_are_shown_at_each_question_and_sent_in_order_behind_the_prompt(work: Path) -> None:
    (work / ".mcp.json").write_text('{"mcpServers": {"one": {"command": "true"}, "two": {"command": "true"}}}')
    model = script(work.parent / "s.toml", [{"text": "Answer."}])
    with Drawn(["--model", model, "--", "the prompt"], work) as screen:
        screen.wait("Trust this folder?")
        screen.rest()
        for task in ("!echo from-the-shell", "then this"):
            screen.line(task)
            screen.wait(f"queued: {task}")
        screen.type("the draft")
        screen.until(lambda: screen.input_line() == "> the draft", "the draft")
        screen.type("\x1b")
        screen.rest(GRAVE_REST)
        screen.type("\r")
        screen.wait("? Trust this folder? → yes")
        screen.until(lambda: "queued: then this" in screen.visible().partition("→ yes")[2], "the message that waits")
        screen.rest(GRAVE_REST)
        screen.type("\x1b")
        screen.wait("└ from-the-shell")
        shown = screen.text()
        order = ["> the prompt", "> then this", "Answer.", "> !echo from-the-shell"]
        assert sorted(order, key=shown.index) == order
        screen.until(lambda: screen.input_line() == "> the draft", "the draft")
        screen.clear()
        screen.leave()


def test_a_key_sent_at_a_question_before_the_session_is_dropped_and_the_user_learns_so(work: Path) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    with Drawn(["--model", script(work.parent / "s.toml", [])], work) as screen:
        screen.wait("Trust this folder?")
        screen.rest()
        screen.line("sk-ant-api03-0123456789abcdefghij0123456789")
        screen.wait("That looks like an API key, so it was dropped.")
        assert "queued" not in screen.text()
        screen.rest(GRAVE_REST)
        screen.type("n")
        screen.wait("Not trusted")
        screen.until(lambda: screen.input_line() == ">", "the empty line")
        screen.leave()


def test_a_line_of_a_pasted_task_does_not_answer_the_question_of_trust(work: Path) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    with Drawn([], work, ANTHROPIC_API_KEY="sk-ant-none") as screen:
        screen.wait("Trust this folder?")
        screen.rest()
        screen.type("please do this now\ry\rand then y")
        screen.wait("> please do this now")
        assert "→" not in screen.text()
        screen.type("\x1b")
        screen.wait("Esc no")
        screen.type("\x1b")
        screen.wait("Not trusted")
        screen.wait("> please do this now")
        screen.until(lambda: screen.input_line().strip() == "and then y", "the last line of the draft")
        screen.clear()
        screen.leave()


@pytest.mark.parametrize(("answer", "unasked"), [("1\r", True), ("2\r", False), ("3\r", False), ("\x1b", None)])
def test_the_first_start_asks_once_how_commands_run(work: Path, answer: str, unasked: bool | None) -> None:
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    model = script(
        work.parent / "s.toml",
        [{"calls": [call("Bash", command="sh -c 'echo made > made; ls -a ~'")]}, {"text": "Done."}],
    )
    (work.parent / "home").mkdir()
    (work.parent / "home/private.txt").write_text("x")
    with Drawn(["--model", model], work, AGENT_SANDBOX_MODE="auto") as screen:
        screen.wait("How should commands run?")
        screen.wait("type to filter")
        screen.type("7")
        screen.wait("no match")
        screen.type("\x7f")
        screen.gone("no match")
        screen.type(answer)
        screen.wait("commands run in the sandbox" if unasked else "changes need your approval")
        screen.wait("asks before changes (Shift-Tab)")
        screen.line("go")
        if not unasked:
            screen.wait("Run this command?")
            screen.rest()
            screen.type("y")
        screen.wait("Done.")
        assert "private.txt" not in screen.text() and (work / "made").read_text() == "made\n"
        screen.wait("· sandbox")
        screen.line("/permissions")
        screen.wait("asks before changes and commands")
        assert ("Commands run in the sandbox without a question" in screen.text()) is (unasked is True)
        assert ("Commands that only read run in the sandbox" in screen.text()) is (answer == "2\r")
        screen.type("q")
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        screen.line("/config sandbox.auto_allow false")
        screen.wait("sandbox.auto_allow = false, saved in ~/.agentrc")
        screen.leave()
    with Drawn(["--model", model], work, AGENT_SANDBOX_MODE="auto") as screen:
        screen.ready()
        assert "How should commands run?" not in screen.text()
        screen.leave()


def test_without_a_model_the_first_start_asks_only_for_one(work: Path) -> None:
    if reason := missing("bubblewrap"):
        pytest.skip(f"NOT TESTED: no bubblewrap here: {reason}")
    with Drawn([], work, AGENT_SANDBOX_MODE="auto") as screen:
        screen.wait("connect a model?")
        screen.wait("type to filter")
        screen.line("sk-ant-api03-0123456789abcdefghij0123456789")
        screen.wait("That looks like an API key, so it was dropped.")
        screen.type("\x1b")
        screen.wait("see it work: agent demo.")
        assert "How should commands run?" not in screen.text()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["doctor"], "optional memory no AGENTS.md or CLAUDE.md here"),
        (["--model", "nosuch"], "agent: No provider is known for the model 'nosuch': write it as provider/model"),
        (
            ["--stage", "--model", "nosuch"],
            "The turns work in a copy; at the end of each you decide what comes into your project. /stage leaves.",
        ),
        (["-p", "x"], "Set one up with agent login, or see it work: agent demo."),
    ],
)
def test_what_is_reported_outside_of_a_session_is_wrapped_at_words(work: Path, args: list[str], text: str) -> None:
    with Drawn(args, work, columns=47, rows=90) as screen:
        screen.until(lambda: text in " ".join(screen.text().split()))
        assert args != ["doctor"] or "\n" + " " * 21 + "(/" in screen.text()


def test_what_is_typed_between_a_question_and_the_session_is_shown_in_the_line_only(work: Path) -> None:
    (work / ".agentrc").write_text('[permissions]\nallow = ["Bash(make)"]\n')
    with Drawn([], work, ANTHROPIC_API_KEY="sk-ant-none") as screen:
        screen.wait("Trust this folder?")
        screen.rest(GRAVE_REST)
        screen.type("y")
        screen.wait("? Trust this folder? → yes")
        screen.type("fix it")
        echoes: list[bool] = []

        def is_in_the_line() -> bool:
            lflag = screen.modes()[3]
            assert isinstance(lflag, int)
            echoes.append(bool(lflag & termios.ECHO))
            return screen.input_line() == "> fix it"

        screen.until(is_in_the_line, "the draft")
        assert not any(echoes) and screen.text().count("fix it") == 1
        screen.clear()
        screen.leave()
        assert int(str(screen.modes()[3])) & termios.ECHO
