"""`agent doctor`: everything that is configured, found and missing, and never a key."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.schema import Settings
from agent_cli.doctor.report import check_sandbox
from agent_cli.kernel.runtime.environment import find_environment
from agent_tools.fs.workspace import Workspace
from agent_tools.sandbox import sandbox
from tests.support.program import agent
from tests.support.pty_session import Terminal

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    return folder


def findings(text: str) -> dict[str, list[dict[str, Any]]]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(text)["findings"]:
        by_topic.setdefault(finding["topic"], []).append(finding)
    return by_topic


def test_without_a_model_it_says_what_was_looked_for(work: Path) -> None:
    done = agent(["doctor"], work)
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if line.split()[1] == "model")
    assert line.startswith("missing")
    assert "ANTHROPIC_API_KEY" in line
    assert "no local server (Ollama, LM Studio, vLLM, llama.cpp)" in line
    assert "agent demo" in line


@pytest.mark.parametrize(("env", "colours"), [({}, "on"), ({"NO_COLOR": "1"}, "off"), ({"TERM": "dumb"}, "off")])
def test_it_says_in_words_what_the_terminal_can_do(work: Path, env: dict[str, str], colours: str) -> None:
    shown = Terminal(["doctor"], work, **{"TERM": "xterm-256color", **env}).end()
    line = " ".join(shown.split("terminal", 1)[1].split())
    assert f"100x40, colours {colours}, input and output are a terminal" in line
    assert "neither input nor output is a terminal (use agent -p)" in agent(["doctor"], work).stdout


def test_every_topic_has_a_line_that_begins_with_its_mark(work: Path) -> None:
    lines = [line for line in agent(["doctor"], work).stdout.splitlines() if not line.startswith(" ")]
    assert {line.split()[0] for line in lines} <= {"ok", "missing", "optional", "problem"}
    topics = {line.split()[1] for line in lines}
    assert {"agent", "python", "model", "ripgrep", "git", "shell", "sandbox", "terminal"} <= topics
    assert {"workspace", "state", "settings", "permissions", "memory", "litellm", "keyring"} <= topics


@pytest.mark.parametrize(
    ("base", "window"),
    [
        ("http://127.0.0.1:9/v1", "window 32,000 tokens (assumed)"),
        ("https://gateway.invalid/v1", "window 128,000 tokens (assumed, unless the server says)"),
    ],
)
def test_a_window_that_nobody_says_is_shown_as_a_run_assumes_it(work: Path, base: str, window: str) -> None:
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base, "AGENT_MODEL": "openai/unknown"}
    assert window in agent(["doctor"], work, env=env).stdout


def test_the_source_of_a_key_is_reported_and_never_the_key(work: Path) -> None:
    env = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": f"{KEY}-2"}
    done = agent(["doctor"], work, env=env)
    assert done.returncode == 0
    assert "key: environment ANTHROPIC_API_KEY" in done.stdout
    assert "takes: text, images, PDFs" in done.stdout
    assert "OPENAI_API_KEY is set" in done.stdout
    as_json = agent(["doctor", "--json"], work, env=env)
    assert json.loads(as_json.stdout)["ok"] is True
    assert findings(as_json.stdout)["model"][0]["key_source"] == "environment ANTHROPIC_API_KEY"
    assert KEY not in done.stdout + done.stderr + as_json.stdout + as_json.stderr


def test_a_password_in_an_address_is_not_reported(work: Path) -> None:
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://me:hunter2@example.org/v1", "AGENT_MODEL": "openai/gpt-5"}
    done = agent(["doctor"], work, env=env)
    assert "example.org" in done.stdout
    assert "hunter2" not in done.stdout
    assert "hunter2" not in agent(["doctor", "--json"], work, env=env).stdout


def test_layers_overrides_and_rules_are_reported_with_their_source(work: Path) -> None:
    own, project = work.parent / "home/.agentrc", work / ".agentrc"
    own.write_text('model = "ollama/one"\n[permissions]\nallow = ["Bash(ls)"]\n')
    project.write_text('model = "ollama/two"\nkey_command = "x"\n[permissions]\ndeny = ["Bash(curl:*)"]\n')
    env = {"AGENT_EFFORT": "low", "AGENT_TRUSTED": str(work), "AGENT_SANDBOX_MODE": ""}
    found = findings(agent(["doctor", "--json"], work, env=env).stdout)
    settings = {f["source"]: f for f in found["settings"]}
    assert list(settings) == [str(own), str(project), "the environment"]
    assert settings[str(project)]["sets"] == ["model", "permissions.deny"]
    assert settings[str(project)]["details"] == [
        f"overrides model of {own}",
        "ignored: key_command can only be set in your own settings; name the file with --settings if it is yours",
    ]
    assert settings["the environment"]["sets"] == ["effort", "trusted"]
    assert found["permissions"][0]["rules"] == [
        {"list": "allow", "rule": "Bash(ls)", "source": f"{own}:3"},
        {"list": "deny", "rule": "Bash(curl:*)", "source": f"{project}:4"},
    ]


def test_a_broken_settings_file_is_a_line_and_the_rest_goes_on(work: Path) -> None:
    (work.parent / "home/.agentrc").write_text('effort = "low"\n')
    (work / ".agentrc").write_text("\nmodle = 3\n")
    done = agent(["doctor"], work, env={"ANTHROPIC_API_KEY": KEY})
    assert done.returncode == 1
    problem = next(line for line in done.stdout.splitlines() if line.startswith("problem"))
    assert f"{work / '.agentrc'}:2: modle" in problem
    assert "sets effort" in done.stdout
    assert "key: environment ANTHROPIC_API_KEY" in done.stdout
    assert "takes: text, images, PDFs" in done.stdout
    assert "memory" in done.stdout


def test_two_broken_files_and_a_broken_variable_are_all_reported(work: Path) -> None:
    (work.parent / "home/.agentrc").write_text("one = 1\n")
    (work / ".agentrc").write_text("two = 2\n")
    done = agent(["doctor"], work, env={"AGENT_MAX_ROUNDS": "many"})
    problems = [line for line in done.stdout.splitlines() if line.startswith("problem")]
    assert len(problems) == 3
    assert all(any(word in p for p in problems) for word in ("one", "two", "AGENT_MAX_ROUNDS"))


def test_a_broken_variable_does_not_hide_the_files(work: Path) -> None:
    (work / ".agentrc").write_text("max_seconds = 9\n")
    done = agent(["doctor"], work, env={"AGENT_MAX_ROUNDS": "many"})
    assert f"{work / '.agentrc'} sets max_seconds" in done.stdout


def test_a_local_server_that_does_not_answer_is_a_problem(work: Path) -> None:
    done = agent(["doctor"], work, env={"AGENT_MODEL": "ollama/qwen3"})
    assert done.returncode == 1
    assert "no model server answers at http://127.0.0.1:9" in done.stdout


def test_programs_that_are_not_there_are_missing(work: Path) -> None:
    done = agent(["doctor", "--json"], work, env={"PATH": str(work)})
    assert findings(done.stdout)["git"][0]["mark"] == "missing"


def test_memory_files_are_named(work: Path) -> None:
    (work / "AGENTS.md").write_text("Be kind.\n")
    found = findings(agent(["doctor", "--json"], work).stdout)
    assert found["memory"][0]["files"] == [str(work / "AGENTS.md")]


@pytest.mark.skipif(os.name != "posix", reason="/dev/null is no folder")
def test_a_state_folder_that_cannot_be_written(work: Path) -> None:
    found = findings(agent(["doctor", "--json"], work, env={"AGENT_STATE_DIR": "/dev/null/state"}).stdout)
    assert found["state"][0]["mark"] == "problem"
    assert found["state"][0]["writable"] is False


def test_a_home_that_does_not_exist_is_reported(work: Path) -> None:
    done = agent(["doctor"], work, env={"HOME": str(work / "nowhere")})
    assert "missing  home" in done.stdout


def test_nothing_is_left_behind(work: Path) -> None:
    agent(["doctor"], work)
    assert list(work.iterdir()) == []
    assert not (work.parent / "home/state").exists()


def test_the_sandbox_is_reported_and_why_it_is_no_better_one(work: Path) -> None:
    auto = agent(["doctor", "--json"], work, env={"AGENT_SANDBOX_MODE": "auto"})
    sandbox = findings(auto.stdout)["sandbox"][0]
    assert sandbox["kind"] in ("bubblewrap", "landlock", "none")
    assert sandbox["kind"] == "bubblewrap" or sandbox["why"][0].startswith("bubblewrap: ")
    (work.parent / "home/.agentrc").write_text('[sandbox]\nmode = "off"\n')
    settings = {"AGENT_SANDBOX_MODE": ""}
    off = findings(agent(["doctor", "--json"], work, env=settings).stdout)["sandbox"][0]
    assert off["mark"] == "missing" and off["text"].startswith("off: commands run with your permissions")
    # A project can only make it stricter.
    (work / ".agentrc").write_text('[sandbox]\nmode = "require"\nnetwork = true\n')
    found = findings(agent(["doctor", "--json"], work, env=settings).stdout)
    assert found["sandbox"][0]["mode"] == "require"
    assert "sandbox.network can only be set in your own settings" in str(found["settings"])
    assert {p.name for p in work.iterdir()} == {".agentrc"}


def test_a_sandbox_for_macos_is_called_experimental_and_never_a_reason_not_to_ask(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sandbox, "try_seatbelt", lambda profile: "")
    run_env = find_environment({"HOME": str(work.parent / "home")}, work)
    asked = Settings().sandbox.replace(seatbelt=True, auto_allow=True, mode="auto")
    [finding] = check_sandbox(Workspace(work, (), work), Settings().replace(sandbox=asked), run_env)
    assert finding.text == "Seatbelt (experimental); without network; every command needs approval"
    assert finding.details[0].startswith("experimental: ")
    [off] = check_sandbox(Workspace(work, (), work), Settings(), run_env)
    assert off.mark == "missing" and "sandbox.seatbelt = true" in off.text
