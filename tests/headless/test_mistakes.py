"""Mistakes that once went unnoticed, or went wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.cli.option_parser import parse_options
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script

UUID = "2f3c7a9e-1111-4222-8333-123456789012"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / ".git").mkdir(parents=True)
    (folder / ".env").write_text("KEY=1\n")
    (folder / "a.txt").write_text("KEY of the map\n")
    return folder


def test_a_rule_that_is_not_closed_is_no_rule_at_all(work: Path) -> None:
    done = agent(["tools", "run", "Bash", '{"command":"touch made"}', "--allowedTools", "Bash(npm test"], work)
    assert done.returncode == 2
    assert "a parenthesis is not closed" in done.stderr
    assert not (work / "made").exists()


@pytest.mark.parametrize("rule", ["bash(rm:*)", "Reed", "Bahs"])
def test_a_mistyped_rule_is_named(work: Path, rule: str) -> None:
    done = agent(["-p", "--model", "x/y", "--disallowedTools", rule, "--", "q"], work)
    assert done.returncode == 2
    assert "did you mean" in done.stderr


def test_a_rule_for_a_tool_that_does_not_exist_is_named_and_the_run_goes_on(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Done."}])
    rules = ["--allowedTools", "Foo(x)", "Bash(ls)", "TaskOutput", "mcp__any__tool", "--disallowedTools", "Frobnicate"]
    done = agent(["-p", "--model", model, *rules, "--", "q"], work)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert done.stderr.count("there is no tool") == 2
    assert "there is no tool Foo, so the allow rule Foo(x) has no effect" in done.stderr
    assert "there is no tool Frobnicate, so the deny rule Frobnicate has no effect" in done.stderr


def test_a_prompt_of_one_capitalised_word_is_a_prompt() -> None:
    options = parse_options(["-p", "--allowedTools", "Read", "Summarize"])
    assert options is not None
    assert (options.allowed_tools, options.prompt) == (("Read",), ("Summarize",))


@pytest.mark.parametrize("flags", [["--max-turns", "-1"], ["--max-budget-usd=-2"]])
def test_negative_limits_are_refused(work: Path, flags: list[str]) -> None:
    done = agent(["-p", "--model", "x/y", *flags, "q"], work)
    assert done.returncode == 2
    assert "not negative" in done.stderr


def test_a_resumed_session_keeps_its_model(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Two."}])
    agent(["-p", "--model", model, "a"], work)
    done = agent(["-p", "-c", "b"], work)
    assert (done.returncode, done.stdout) == (0, "Two.\n"), done.stderr
    missing = agent(["-p", "-r", "dead", "b"], work)
    assert "No session of this project begins with dead" in missing.stderr


def test_a_fallback_that_cannot_be_opened_does_not_abort_the_run(work: Path) -> None:
    replies = [{"calls": [call("Read", file_path="a.txt")]}, {"error": {"kind": "network", "message": "Gone."}}]
    model = script(work / "s.toml", replies)
    done = agent(["-p", "--model", model, "--fallback-model", "openai/gpt-5", "--output-format", "json", "q"], work)
    assert done.returncode == 0
    assert json.loads(done.stdout)["outcome"] == "degraded"


@pytest.mark.parametrize("where", [{"glob": ".env"}, {"path": "."}, {"path": ".", "glob": "*"}, {"path": ".env"}])
def test_a_search_does_not_show_what_may_not_be_read(work: Path, where: dict[str, str]) -> None:
    arguments = json.dumps({"pattern": "KEY", "output_mode": "content", **where})
    done = agent(["tools", "run", "Grep", arguments, "--disallowedTools", "Read(.env)"], work)
    assert "KEY=1" not in done.stdout
    if "glob" not in where and where.get("path") == ".":
        assert "KEY of the map" in done.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "The script s.toml cannot be read: No such file or directory."),
        ("reply = 5", "The script s.toml has no list of tables [[reply]]."),
        ("reply = [5]", "The script s.toml has no list of tables [[reply]]."),
        ("[[reply", "The script s.toml is not TOML: "),
    ],
)
def test_a_script_that_cannot_be_used_is_one_sentence(work: Path, text: str | None, says: str) -> None:
    if text is not None:
        (work / "s.toml").write_text(text)
    done = agent(["-p", "--model", "scripted:s.toml", "q"], work)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"agent: {says}"), done.stderr


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (401, "wrong key", " and its source: agent doctor. To store another one: agent login\n"),
        (404, "no", " To see which address is used, and its source: agent doctor\n"),
        (404, "the model `m` does not exist", " See the names that are known: agent models\n"),
        (400, "no", ": no.\n"),
    ],
)
def test_a_refusal_by_the_provider_is_followed_by_what_to_do(work: Path, status: int, body: str, advice: str) -> None:
    with ModelServer([Reply(status=status, error=body)]) as server:
        env = {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "k"}
        done = agent(["-p", "--model", "openai/m", "q"], work, env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(advice) and done.stderr.count("\n") == 1, done.stderr


def test_an_address_without_a_scheme_is_a_mistake_in_the_settings(work: Path) -> None:
    env = {"OPENAI_BASE_URL": "localhost:8080/v1", "OPENAI_API_KEY": "k"}
    done = agent(["-p", "--model", "openai/m", "q"], work, env)
    assert done.returncode == 2
    assert done.stderr.startswith("agent: The address in OPENAI_BASE_URL, 'localhost:8080/v1', is not one that")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["-c", "-r", "x"], "--continue resumes the latest session, --resume the one that it names: give one of them."),
        (["-c", "--session-id", UUID], "--session-id is the ID of a new session: with --continue or --resume add"),
        (["-r", "x", "--session-id", UUID], "--session-id is the ID of a new session: with --continue or --resume add"),
        (["-o", "nowhere/x"], "--output-last-message: nowhere/x cannot be written: its folder does not exist."),
        (["-o", "."], "--output-last-message: . is a folder."),
    ],
)
def test_flags_that_cannot_be_followed_are_refused_before_anything_is_sent(
    work: Path, flags: list[str], says: str
) -> None:
    model = script(work / "s.toml", [{"text": "One."}, {"text": "Never said."}])
    agent(["-p", "--model", model, "q"], work)
    done = agent(["-p", "--model", model, *flags, "q"], work)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"agent: {says}"), done.stderr


def test_an_answer_file_that_cannot_be_written_at_the_end_fails_the_run(work: Path) -> None:
    (work / "out").mkdir()
    model = script(work / "s.toml", [{"calls": [call("Bash", command="rmdir out")]}, {"text": "Done."}])
    done = agent(["-p", "--model", model, "--allowedTools", "Bash", "-o", "out/x", "--", "q"], work)
    assert (done.returncode, done.stdout) == (1, "Done.\n")
    assert "The answer cannot be written to out/x: No such file or directory" in done.stderr


@pytest.mark.parametrize("words", ["--print=true", "--model"])
def test_a_value_too_many_or_too_few_gets_no_advice_about_names(work: Path, words: str) -> None:
    done = agent([words], work)
    assert done.returncode == 2
    assert "Did you mean" not in done.stderr and ".." not in done.stderr


@pytest.mark.parametrize("words", ["eval tasks", "batch tasks.jsonl", "sessions list", "-p q"])
def test_a_deleted_working_directory_is_one_sentence(work: Path, words: str) -> None:
    command = f'mkdir gone && cd gone && rmdir ../gone && exec "{sys.executable}" -m agent_cli {words}'
    env = clean_env(work.parent / "home", PYTHONSAFEPATH="1")
    done = subprocess.run(["bash", "-c", command], cwd=work, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("agent: ") and "internal error" not in done.stderr, done.stderr


def test_a_review_outside_a_repository_says_so(tmp_path: Path) -> None:
    done = agent(["review", "--model", "openai/m"], tmp_path, {"OPENAI_API_KEY": "k"})
    assert done.returncode == 2
    assert (
        done.stderr == f"agent: agent review compares commits and files in git, and {tmp_path} is no git repository.\n"
    )


def test_a_notice_about_a_misspelled_setting_ends_in_one_mark(work: Path) -> None:
    model = script(work / "s.toml", [{"text": "One."}])
    done = agent(["-p", "--model", model, "--settings", '{"modle": 1}', "q"], work)
    assert done.stderr == "agent: --settings: modle has no effect: not known here (did you mean model?).\n"
