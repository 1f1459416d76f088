"""Slash commands that bring more than words: commands that run, rules, a model; and those that are shipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.extension_files import command
from tests.support.model_server import ModelServer, Reply, openai
from tests.support.program import agent
from tests.support.scripts import call, script


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_commands_in_a_prompt_run_where_they_are_permitted(work: Path) -> None:
    (work / "b.txt").write_text("two @a.txt\n")
    body = "Files:\n!`ls *.txt`\nAnd:\n```!\ncat b.txt\nexit 3\n```\nNow $1, not `that!` or `this`."
    command(work, "see", f"---\nallowed-tools: Bash(exit *)\n---\n{body}")
    with ModelServer([Reply(text="Ok.")]) as server:
        done = agent(["-p", "--model", "openai/gpt-test", "/see go !`touch made`"], work, openai(server))
        sent = server.bodies[0]["messages"][-1]["content"]
    assert done.returncode == 0, done.stderr
    head, _, tail = sent.partition("[exit code 3")
    assert head == "Files:\na.txt\nb.txt\nAnd:\ntwo @a.txt\n", "what a command prints mentions no file"
    assert tail.endswith("]\nNow go, not `that!` or `this`.")
    assert not (work / "made").exists(), "what stands in the arguments is never run"


@pytest.mark.parametrize(
    ("head", "flags", "why"),
    [
        ("", (), "nobody can approve it here"),
        ("", ("--on-ask", "suspend"), "it needs the user to allow it"),
        ("", ("--disallowedTools", "Bash(touch:*)", "--permission-mode", "acceptEdits"), "is denied by Bash(touch:*)"),
        ("---\nallowed-tools: Bash(touch:*)\n---\n", ("--disallowedTools", "Bash(touch:*)"), "is denied by"),
        ("---\nallowed-tools: Bash(touch:*)\n---\n", ("--tools", "Read"), "Bash is not offered here"),
    ],
)
def test_a_command_that_may_not_run_is_one_sentence_and_nothing_is_sent(
    work: Path, head: str, flags: tuple[str, ...], why: str
) -> None:
    command(work, "make", f"{head}Made: !`touch made`")
    done = agent(["-p", "--model", script(work.parent / "s.toml", []), *flags, "/make"], work)
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("agent: /make was not sent") and why in last
    assert not (work / "made").exists()


def test_allowed_tools_hold_for_the_turn_and_no_longer(work: Path) -> None:
    command(work, "make", "---\nallowed-tools: Bash(touch:*), Bash(mkdir *)\n---\n!`touch zero`Make $1.")
    touch = call("Bash", command="touch one && mkdir d")
    model = script(work.parent / "s.toml", [{"calls": [touch]}, {"text": "Made."}])
    done = agent(["-p", "--model", model, "/make it"], work)
    assert done.returncode == 0, done.stderr
    assert (work / "zero").exists() and (work / "d").is_dir()
    tried = {"calls": [call("Bash", command="touch two")]}
    again = script(work.parent / "t.toml", [tried, {"text": "No."}])
    assert "Denied: Bash" in agent(["-p", "-c", "--model", again, "more"], work).stderr
    assert not (work / "two").exists()


def test_allowed_tools_and_the_model_hold_over_a_pause(work: Path) -> None:
    other = script(
        work.parent / "other.toml",
        [
            {"calls": [call("Bash", command="rm a.txt")]},
            {"calls": [call("Bash", command="touch one")], "expect": "exit code 0"},
            {"text": "Other."},
        ],
    )
    command(work, "make", f"---\nallowed-tools: Bash(touch:*)\nmodel: {other}\n---\nMake it.")
    usual = script(work.parent / "usual.toml", [{"text": "Usual."}])
    done = agent(["-p", "--model", usual, "--on-ask", "suspend", "/make"], work)
    assert done.returncode == 3, done.stderr
    resumed = agent(["approve"], work)
    assert (resumed.returncode, resumed.stdout) == (0, "Other.\n"), resumed.stderr
    assert (work / "one").exists()
    after = agent(["-p", "-c", "and now?"], work)
    assert (after.returncode, after.stdout) == (0, "Usual.\n"), after.stderr
    assert not (work / "a.txt").exists()


def test_a_model_that_cannot_be_had_is_reported_and_done_without(work: Path) -> None:
    command(work, "ask", "---\nmodel: anthropic/claude-x\n---\nAsk.")
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    done = agent(["-p", "--output-format", "stream-json", "--model", model, "/ask"], work)
    texts = [line["content"] for line in lines(done) if line.get("subtype") == "informational"]
    assert done.returncode == 0
    assert texts and texts[0].startswith("/ask asks for the model anthropic/claude-x: No key for anthropic")


def test_a_projects_command_does_not_open_protected_files(work: Path) -> None:
    command(work, "ci", "---\nallowed-tools: Write(//**/.github/workflows/x.yml), Edit\n---\nDo it.", home=False)
    write = call("Write", file_path=str(work / ".github/workflows/x.yml"), content="on: push\n")
    model = script(work.parent / "s.toml", [{"calls": [write]}, {"text": "No."}])
    done = agent(["-p", "--trust", "--model", model, "/ci"], work)
    assert "writes a protected file" in done.stderr
    assert not (work / ".github").exists()


def test_the_models_own_use_is_asked_about_with_its_commands(work: Path) -> None:
    command(work, "make", "---\nallowed-tools: Bash(mkdir:*)\n---\nMade: !`touch made`")
    use = {"calls": [call("SlashCommand", command="/make")]}
    model = script(work.parent / "s.toml", [use, {"text": "No."}])
    denied = agent(["-p", "--allowedTools", "SlashCommand", "--model", model, "x"], work)
    assert "Denied: SlashCommand" in denied.stderr
    assert not (work / "made").exists(), "the tool is allowed, the command in the prompt is not"
    more = [use, {"calls": [call("Bash", command="mkdir d")], "expect": "Made: (no output)"}, {"text": "Yes."}]
    model = script(work.parent / "s.toml", more)
    flags = ["--allowedTools", "SlashCommand Bash(touch:*)"]
    done = agent(["-p", *flags, "--model", model, "x"], work)
    assert done.returncode == 0, done.stderr
    assert (work / "made").exists() and (work / "d").is_dir()


def test_the_shipped_commands_are_there_and_files_override_them(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Fit.", "expect": "## "}])
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    done = agent(["-p", "--output-format", "stream-json", "--model", model, "/review a.txt"], work)
    assert done.returncode == 0, done.stderr
    named = lines(done)[0]["slash_commands"]
    assert {"init", "review", "tdd", "explain", "security-review"} <= set(named)
    assert "SlashCommand" not in lines(done)[0]["tools"], "the model is not told of them"
    command(work, "review", "My own way.")
    mine = script(work.parent / "s.toml", [{"text": "Ok.", "expect": "My own way."}])
    assert agent(["-p", "--model", mine, "/review"], work).returncode == 0


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("/theme dark", "agent: /theme is a command for interactive sessions and does nothing with -p.\n"),
        ("/reveiw a.txt", "agent: Unknown command /reveiw. Did you mean /review?\n"),
        ("/complact", "agent: Unknown command /complact. Did you mean /compact?\n"),
        ("/thme", "agent: Unknown command /thme. Did you mean /theme? It is for interactive sessions.\n"),
    ],
)
def test_a_command_that_is_none_here_is_not_sent_as_words(work: Path, message: str, text: str) -> None:
    model = script(work.parent / "s.toml", [])
    done = agent(["-p", "--model", model, message], work)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", text)


def test_a_message_that_only_begins_like_a_command_is_sent(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Yes.", "expect": "/etc/hosts is odd"}])
    assert agent(["-p", "--model", model, "/etc/hosts is odd"], work).stdout == "Yes.\n"


def test_hooks_look_at_the_commands_of_a_prompt_too(work: Path) -> None:
    command(work, "look", "Now: !`echo one` and !`echo two`")
    home = work.parent / "home"
    guard = work.parent / "guard.py"
    guard.write_text(
        "import json, sys\n"
        "call = json.load(sys.stdin)\n"
        "said = call['tool_input']['command']\n"
        "assert call['effects'] == [{'kind': 'run', 'target': said}]\n"
        "if said == 'echo one':\n"
        "    print(json.dumps({'hookSpecificOutput': {'updatedInput': {'command': 'echo uno'}}}))\n"
        "elif said == 'echo two' and len(sys.argv) > 1:\n"
        "    sys.exit(2)\n"
    )
    hook = f'[[hooks]]\nevent = "PreToolUse"\nmatcher = "Bash"\ncommand = "{sys.executable} {guard}'
    (home / ".agentrc").write_text(f'{hook}"\n')
    model = script(work.parent / "s.toml", [{"text": "Ok.", "expect": "Now: uno and two"}])
    done = agent(["-p", "--model", model, "/look"], work)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr
    hooks = json.loads(agent(["show", "--json"], work).stdout)["turns"][0]["hooks"]
    assert [h["name"] for h in hooks] == ["PreToolUse:Bash"] * 2
    (home / ".agentrc").write_text(f'{hook} no"\n')
    done = agent(["-p", "--model", model, "/look"], work)
    assert done.returncode == 2
    assert "its command `echo two` may not run: it was refused by a hook" in done.stderr


def test_a_command_is_shown_as_it_was_typed_and_its_prompt_goes_to_the_model(work: Path) -> None:
    command(work, "see", "Look at everything,\nand judge $1.")
    model = script(work.parent / "s.toml", [{"text": "Seen.", "expect": "and judge go."}, {"text": "Again."}])
    flags = ["--model", model, "--plain"]
    first = agent(flags, work, stdin="/see go\n/rewind\n")
    assert first.returncode == 0, first.stderr
    assert "1. /see go" in first.stdout and "and judge" not in first.stdout
    again = agent([*flags, "-c"], work, stdin="/pin\n\n")
    assert "> /see go" in again.stderr and "you - /see go" in again.stdout
    shown = (
        again.stderr
        + again.stdout
        + "".join(
            agent(args, work).stdout
            for args in (["sessions", "list"], ["show"], ["sessions", "export"], ["sessions", "list", "--json"])
        )
    )
    assert shown.count("/see go") >= 6 and "and judge" not in shown


def test_the_files_of_a_message_are_its_words_as_before(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Seen.", "expect": "hello"}])
    done = agent(["--model", model, "--plain"], work, stdin="see @a.txt\n/rewind\n")
    assert "1. see @a.txt" in done.stdout
