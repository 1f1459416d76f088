"""Slash commands about settings and state, in a real session that is read line by line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.shells.terminal import commands  # noqa: F401 - registers them
from agent_cli.shells.terminal.slash import builtin_commands
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.session_logs import sent

DONE: dict[str, Any] = {"text": "Done.", "usage": {"input": 100, "output": 10, "cache_read": 50}}


def session(work: Path, *lines: str, replies: list[dict[str, Any]] | None = None, **env: str) -> str:
    """What a session says to these lines."""
    model = script(work.parent / "s.toml", replies or [DONE])
    done = agent(["--model", model, "--plain"], work, env=env, stdin="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("words", ["²", "9" * 5000, "~nobody-of-this-name/x", "x" * 300, "'", "[", "/", "--", "a\0b"])
def test_no_odd_words_end_a_session(work: Path, words: str) -> None:
    (work / "AGENTS.md").write_text("x")
    names = sorted(set(builtin_commands()) - {"exit"})
    lines = [line for name in names for line in ("hello", f"/{name} {words}")]
    verbs = ["/todos drop", "/todos add", "/permissions remove", "/permissions allow", "/diff since", "/mcp reconnect"]
    chips = [f"@AGENTS.md:{words}", f"[Image #{words} x]", f"[Pasted #{words} 3 lines]"]
    more = [*(f"{verb} {words}" for verb in verbs), *chips, "/status"]
    shown = session(work, *lines, *more, replies=[DONE] * 99)
    assert shown.count("  version    agent") == 2


def test_the_status_names_everything_and_no_key(work: Path) -> None:
    (work / "AGENTS.md").write_text("x")
    key = "sk-very-secret-0123456789"
    shown = session(work, "/status", OPENAI_API_KEY=key, AGENT_EFFORT="high")
    for text in (
        "scripted:",
        "high",
        "default",
        "sandbox    off",
        "trust      nothing to trust",
        "session",
        str(work),
        "AGENTS.md",
    ):
        assert text in shown
    assert "the environment" not in shown.partition("settings")[0]
    assert key not in shown


def test_rules_of_this_session_are_added_shown_and_taken_back(work: Path) -> None:
    (work.parent / "home").mkdir()
    (work.parent / "home/.agentrc").write_text('[permissions]\ndeny = ["Bash(curl:*)"]\n')
    shown = session(
        work, "/permissions allow Bash(touch made)", "/permissions", "go", "/permissions remove 1",
        "/permissions remove 2", "/permissions remove 2", "/permissions allow Bsh(x)", "/permissions what",
        replies=[{"calls": [call("Bash", command="touch made")]}, DONE],
    )  # fmt: skip
    assert (work / "made").exists()
    assert "1. deny  Bash(curl:*)  (" in shown and ".agentrc:2)" in shown
    assert "2. allow Bash(touch made)  (this session)" in shown
    assert ".agentrc:2; change it there." in shown
    assert "allow Bash(touch made) does not hold any more." in shown
    assert "Say: allow RULE" in shown and "did you mean Bash?" in shown


def test_a_deny_rule_of_this_session_also_hides_files_from_searches(work: Path) -> None:
    session(
        work, "/permissions deny Read(a.txt)", "go",
        replies=[{"calls": [call("Grep", pattern="hello", output_mode="content")]}, {"text": "None.", "expect": ""}],
    )  # fmt: skip
    assert not any("hello world" in text for text in sent(work))


def test_effort_is_changed_for_the_session(work: Path) -> None:
    shown = session(work, "/effort", "/effort low", "/effort huge", "/effort default")
    assert "effort: model default" in shown
    assert "effort: low" in shown
    assert "huge is not a level. There are default, none, minimal, low" in shown


def test_a_folder_is_added_and_the_model_is_informed(work: Path) -> None:
    other = work.parent / "other"
    other.mkdir()
    (other / "b.txt").write_text("from elsewhere\n")
    (other / "AGENTS.md").write_text("Rules of the other.\n")
    read = {"calls": [call("Read", file_path=str(other / "b.txt"))]}
    shown = session(
        work, "/add-dir ../nowhere", "/add-dir ../other", "/add-dir ../other", "go", "/add-dir",
        f"/add-dir {work.parent}",        "n", replies=[read, {"text": "Read.", "expect": "Rules of the other"}],
    )  # fmt: skip
    assert "../nowhere is not a folder." in shown
    assert "is part of the workspace for this session." in shown
    assert "is already part of the workspace." in shown
    assert "holds much more than a project" in shown and "Nothing was added." in shown
    assert any("The user added the folder" in text for text in sent(work))
    assert any("from elsewhere" in text for text in sent(work))


def test_plan_mode_is_entered_and_left(work: Path) -> None:
    shown = session(
        work, "/plan on", "/mode", "go", "/plan off", "more", "/plan make it small", "/mode", replies=[DONE] * 3
    )
    assert "plan mode on: nothing is changed until you approve a plan" in shown
    assert shown.count("mode: plan") == 2 and "plan mode off; mode: default" in shown
    texts = sent(work)
    assert "<plan_mode>" in texts[0] and any(text.startswith("make it small\n\n<plan_mode>") for text in texts)
    assert any("The user ended plan mode" in text for text in texts)


@pytest.mark.parametrize("leave", ["/plan off", "/mode default", "/mode acceptEdits"])
def test_however_plan_mode_is_left_the_model_is_told_once(work: Path, leave: str) -> None:
    session(work, "/plan", "go", leave, "more", "again", "/plan", "/mode default", "last", replies=[DONE] * 4)
    told = [text.partition("\n\n")[2] or text for text in sent(work)]
    ended = "<plan_mode>\nThe user ended plan mode: changes may be made.\n</plan_mode>"
    assert told[0].startswith("<plan_mode>\nPlan mode is on")
    modes = [text.split()[4] for text in told if text.startswith("<session_change>\nPermission mode now: ")]
    assert modes == (["acceptEdits:", "default:"] if "acceptEdits" in leave else [])
    assert [text for text in told[1:] if "Permission mode" not in text] == [ended, "more", "again", "last"]


def test_the_diff_leaves_out_what_programs_write_for_themselves(work: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    made = "mkdir __pycache__ && touch __pycache__/a.pyc && echo new > made.txt"
    shown = session(work, "go", "y", "/diff", "/undo", replies=[{"calls": [call("Bash", command=made)]}, DONE])
    assert (work / "__pycache__/a.pyc").exists()
    after = shown.rpartition("Done.")[2]
    assert "made.txt" in after and "a.pyc" not in after


def test_the_cost_is_reported_by_turn_and_for_all_after_a_resume(work: Path) -> None:
    first = session(work, "one", "two", "/cost", replies=[DONE, DONE])
    assert "session: 200 tokens in (50% from cache), 20 out; $0.0000" in first
    assert "turn 2: 100 tokens in (50% from cache), 10 out; $0.0000  two" in first
    model = script(work.parent / "s.toml", [DONE] * 3)
    again = agent(["--model", model, "--plain", "-c"], work, stdin="three\n/cost\n").stdout
    assert "session: 300 tokens in" in again and "turn 3:" in again


def test_the_cost_names_each_model_and_folds_what_was_long_ago(work: Path) -> None:
    other = script(work.parent / "other.toml", [DONE])
    lines = [*(f"message {n}" for n in range(12)), f"/model {other}", "last", "/cost"]
    shown = session(work, *lines, replies=[DONE] * 12)
    assert "turns 1 to 3: 300 tokens in" in shown
    assert f"scripted:{work.parent}/s.toml: 1,200 tokens in" in shown
    assert f"{other}: 100 tokens in" in shown


def test_a_session_that_is_not_kept_says_what_it_knows(work: Path) -> None:
    shown = session(work, "one", "/cost", AGENT_SAVE_SESSIONS="false")
    assert "100 tokens in (50% from cache), 10 out; $0.0000 (since the session was opened; it is not saved)" in shown


def test_a_report_has_what_helps_and_nothing_private(work: Path) -> None:
    key = "sk-very-secret-0123456789"
    (work.parent / "home").mkdir()
    (work.parent / "home/.agentrc").write_text(f'key_command = "echo {key}"\neffort = "low"\n')
    fails = [{"error": {"kind": "overloaded", "message": f"Too busy for {key}."}}]
    shown = session(work, "private words", f"/bug it broke with {key}", replies=fails, OPENAI_API_KEY=key)
    assert "The report is in" in shown and "Nothing was sent" in shown
    reports = list((work.parent / "home/state/reports").iterdir())
    text = reports[0].read_text()
    assert reports[0].stat().st_mode & 0o777 == 0o600
    assert "it broke with [redacted]" in text and "- effort (~/.agentrc) = low" in text and "key_command" in text
    assert "overloaded: Too busy for [redacted]." in text
    assert key not in text and "private words" not in text and str(work.parent / "home") not in text


def test_the_doctor_works_in_a_session(work: Path) -> None:
    shown = session(work, "/doctor", AGENT_MAX_ROUNDS="7")
    assert "ok       settings    the environment sets max_rounds" in shown
    assert "ok       model       scripted:" in shown


def test_a_note_goes_into_the_file_and_to_the_model(work: Path) -> None:
    shown = session(work, "#use tabs", "go", "#42 is an issue", replies=[DONE, DONE])
    assert (work / "AGENTS.md").read_text() == "## Notes\n\n- use tabs\n"
    assert "Added to AGENTS.md" in shown
    texts = sent(work)
    assert any("The user added to AGENTS.md: use tabs" in text for text in texts)
    assert "#42 is an issue" in texts


def test_memory_is_listed_shown_and_edited(work: Path) -> None:
    (work / "AGENTS.md").write_bytes(b"Be kind.\x1b[2J\r\n")
    editor = work.parent / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "Be brief.\\r\\n" >> "$1"\n')
    editor.chmod(0o755)
    shown = session(work, "/memory show", "/memory 1", "/memory", "", "/memory 9", "go", EDITOR=str(editor))
    assert "Be kind.\\x1b[2J" in shown and "\x1b" not in shown
    assert (work / "AGENTS.md").read_bytes() == b"Be kind.\x1b[2J\r\nBe brief.\r\n"
    assert "AGENTS.md is written; the model learns of it" in shown
    assert "There is no memory file 9" in shown
    assert any("The user changed the memory file AGENTS.md." in text and "Be brief." in text for text in sent(work))


def test_a_first_memory_file_is_made_by_hand_or_by_the_model(work: Path) -> None:
    editor = work.parent / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "Mine.\\n" > "$1"\n')
    editor.chmod(0o755)
    session(work, "/memory", "2", EDITOR=str(editor))
    assert (work.parent / "home/.agent/AGENTS.md").read_text() == "Mine.\n"
    write = {"calls": [call("Write", file_path="AGENTS.md", content="# Work\n")]}
    session(work, "/init above all the tests", "y", replies=[write, {"text": "Written."}])
    assert (work / "AGENTS.md").read_text() == "# Work\n"
    (text,) = [t for t in sent(work) if "memory file of this project" in t]
    assert text.endswith("Arguments: above all the tests")


def test_a_limit_says_its_setting_and_the_summary_stands_there_once(work: Path) -> None:
    replies = [{"calls": [call("Read", file_path="a.txt")]}, {"text": "I have read it. The rest is left."}]
    done = agent(["--plain", "--max-turns", "1", "--model", script(work / "s.toml", replies)], work, stdin="go\n")
    # At this limit the summary is the program's: the model is not asked once more.
    assert "I have read it." not in done.stdout
    assert done.stdout.count("Read a.txt (done)") == 1
    text = 'the limit of model calls per turn is reached (setting: max_rounds). Say "continue" to continue'
    assert text in " ".join(done.stdout.split())


def test_a_limit_of_failures_says_its_setting(work: Path) -> None:
    replies = [{"calls": [call("Read", file_path="none.txt")]}, {"text": "It is not there."}]
    flags = ["--plain", "--settings", "max_failures = 1", "--model", script(work / "s.toml", replies)]
    done = agent(flags, work, stdin="go\n2\n")
    assert "(setting: max_failures)" in " ".join(done.stdout.split())
    assert done.stdout.count("It is not there.") == 1


def test_config_shows_the_files_as_they_are_now(work: Path) -> None:
    own = work.parent / "home/.agentrc"
    own.parent.mkdir()
    own.write_text('effort = "low"\nmax_rounds = 7\n')
    (work.parent / "less").write_text("max_rounds = 8\n")
    (work.parent / "wrong").write_text("max_rounds = \n")
    shown = session(
        work, "/output-style explanatory", "/config max_rounds", "/config effort", "", f"! cp ../less {own}",
        "/config max_rounds", "/config effort", "", "/config output_style", f"! cp ../wrong {own}",
        "/config max_rounds",
    )  # fmt: skip
    before, after, wrong = shown.split("cp ../")
    assert f"max_rounds = 7 ({own}):" in before and f'effort = "low" ({own}):' in before
    assert f"max_rounds = 8 ({own}):" in after and "effort = null: " in after
    assert 'output_style = "explanatory" (/output-style):' in after
    assert f"The settings have a mistake now, so these are from the start: {own}: " in " ".join(wrong.split())
    assert f"max_rounds = 7 ({own}):" in wrong


def test_config_shows_finds_and_changes_settings(work: Path) -> None:
    own = work.parent / "home/.agentrc"
    own.parent.mkdir()
    own.write_text('# mine\neffort = "low"\n')
    shown = session(
        work, "/config", "/config effort high", "/config effort", "", "/config modle", "/config auto_allow",
        "/config sandbox.mode sometimes", "/config terminal.theme light", "/config sandbox.domains pypi.org",
    )  # fmt: skip
    assert f'effort = "low" ({own})' in shown and "stream = true" in shown
    assert 'effort = "high", saved in ~/.agentrc; takes effect at the next start' in shown
    assert f'effort = "high" ({own})' in shown and "[1-" in shown
    assert "There is no setting modle; did you mean model?" in shown
    assert "There is no setting auto_allow; did you mean sandbox.auto_allow?" in shown
    assert "Not changed: sandbox.mode: expected one of auto, require, off, found 'sometimes'.\n" in shown
    assert 'terminal.theme = "light", saved in ~/.agentrc\n' in shown
    text = own.read_text()
    assert text.startswith("# mine\n") and 'effort = "high"' in text and 'domains = ["pypi.org"]' in text
    assert "sometimes" not in text


def test_a_rule_for_an_unknown_tool_and_a_step_of_no_plan_are_named(work: Path) -> None:
    shown = session(work, "/permissions allow Foo(x)", "/permissions deny Bash(rm:*)", "/todos done 9")
    assert "there is no tool Foo, so the allow rule Foo(x) has no effect" in shown
    assert shown.count("there is no tool") == 1
    assert "There is no step 9; the plan has 0.\n" in shown and "There is no plan." not in shown


def test_what_is_done_after_the_last_answer_reaches_the_model_of_the_resumed_session(work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    replies: list[dict[str, Any]] = [
        {"calls": [call("Read", file_path="a.txt"), edit]},
        {"text": "Changed."},
        {"text": "I see."},
    ]
    model = script(work.parent / "s.toml", replies)
    lines = "make it two\n/undo\ny\n!echo by hand\n#use tabs\n"
    done = agent(["--model", model, "--plain", "--permission-mode", "acceptEdits"], work, stdin=lines)
    assert done.returncode == 0 and (work / "a.txt").read_text() == "one\n"
    again = agent(["--model", model, "--plain", "--continue"], work, stdin="go on\n")
    assert again.returncode == 0 and "I see." in again.stdout and "The user undid" not in again.stdout
    texts = sent(work)
    for words in ("The user undid your changes to: a.txt", "$ echo by hand\nby hand", "AGENTS.md: use tabs"):
        assert sum(words in text for text in texts) == 1
    assert texts[-1] == "go on"


def test_what_the_model_is_told_at_the_end_of_a_session_is_not_shown_as_words_of_the_user(work: Path) -> None:
    session(work, "go", "!echo by hand")
    for words in (["show"], ["show", "--json"], ["sessions", "list"], ["sessions", "list", "--json"]):
        assert "by hand" not in agent(words, work).stdout
    for form in ("markdown", "html"):
        text = agent(["sessions", "export", "-f", form], work).stdout
        assert "Note to the model" in text.partition("by hand")[0].rpartition("Done.")[2]
    steps = json.loads(agent(["sessions", "export", "-f", "atif"], work).stdout)["steps"]
    assert [step["source"] for step in steps if "by hand" in json.dumps(step)] == ["system"]
    resumed = agent(["--plain", "--continue"], work, stdin="/exit\n")
    assert "Done." in resumed.stderr and "by hand" not in resumed.stderr + resumed.stdout
