"""`agent models`: names, windows and prices, read from the catalog."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from agent_cli.models.catalog import newest_claude
from tests.support.program import agent, clean_env
from tests.support.web_server import WebServer, page


def test_a_search_finds_names_with_window_and_price(work: Path) -> None:
    done = agent(["models", "claude-sonnet-4-5"], work)
    assert done.returncode == 0
    row = next(line.split() for line in done.stdout.splitlines() if "anthropic/claude-sonnet-4-5 " in line)
    assert row[1:] == ["200,000", "64,000", "3.00", "15.00"]


def test_json_has_numbers(work: Path) -> None:
    done = agent(["models", "--json", "claude-sonnet-4-5"], work)
    model = next(m for m in json.loads(done.stdout) if m["name"] == "anthropic/claude-sonnet-4-5")
    assert (model["context_window"], model["input_per_million"], model["chosen"]) == (200_000, 3.0, None)


def test_nothing_fits(work: Path) -> None:
    done = agent(["models", "no-such-model"], work)
    assert (done.returncode, done.stdout) == (1, "")
    assert "'no-such-model'" in done.stderr


def test_the_model_that_would_be_used_is_marked(work: Path) -> None:
    done = agent(["models"], work, env={"ANTHROPIC_API_KEY": "sk-secret"})
    marked = [line.split()[:2] for line in done.stdout.splitlines() if line[0] == "*"]
    assert marked == [["*", f"anthropic/{newest_claude('sonnet')}"]]
    assert "* is the default." in done.stderr
    configured = {"ANTHROPIC_API_KEY": "sk-secret", "AGENT_MODEL": "claude-sonnet-4-5"}
    done = agent(["models", "claude"], work, env=configured)
    assert [line.split()[:2] for line in done.stdout.splitlines() if line[0] == "*"] == [
        ["*", "anthropic/claude-sonnet-4-5"]
    ]
    assert "* is the default, set in your settings." in done.stderr
    assert "sk-secret" not in done.stdout + done.stderr


def test_the_list_fits_on_a_screen_and_has_the_newest_models_that_call_tools(work: Path) -> None:
    done = agent(["models"], work, env={"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "sk-y"})
    names = [line.split()[-5] for line in done.stdout.splitlines()[1:]]
    assert len(done.stdout.splitlines() + done.stderr.splitlines()) < 24
    assert {name.partition("/")[0] for name in names} == {"openai", "anthropic"}
    assert not [name for name in names if "audio" in name or "/ft:" in name or "gpt-3.5" in name]
    assert "--all" in done.stderr


def test_all_lists_every_known_model(work: Path) -> None:
    few = agent(["models", "--json"], work, env={"OPENAI_API_KEY": "sk-x"})
    every = agent(["models", "--all", "--json"], work, env={"OPENAI_API_KEY": "sk-x"})
    assert {m["provider"] for m in json.loads(few.stdout)} == {"openai"}
    listed = json.loads(every.stdout)
    assert len(listed) > 1000
    assert [m["name"] for m in listed[: len(json.loads(few.stdout))]] == [m["name"] for m in json.loads(few.stdout)]


def test_without_a_provider_some_models_are_shown_and_what_to_do(work: Path) -> None:
    done = agent(["models"], work)
    assert done.returncode == 0
    assert len(done.stdout.splitlines() + done.stderr.splitlines()) < 24
    assert "No provider is configured yet" in done.stderr


def test_models_of_a_local_server_are_those_that_it_has(work: Path) -> None:
    listed = json.dumps({"data": [{"id": "qwen3:8b"}, {"id": "gemma4:12b"}]})
    with WebServer({"/v1/models": page(listed, "application/json")}) as server:
        done = agent(["models"], work, env={"OLLAMA_HOST": server.url("")})
    assert [line.split()[-5] for line in done.stdout.splitlines()[1:]] == ["ollama/qwen3:8b", "ollama/gemma4:12b"]


def test_a_configured_model_is_listed_though_the_catalog_does_not_know_it(work: Path) -> None:
    done = agent(["models", "mymodel"], work, env={"AGENT_MODEL": "ollama/mymodel"})
    assert done.returncode == 0
    assert "* ollama/mymodel" in " ".join(done.stdout.split())


def test_a_broken_settings_file_is_reported_and_the_list_comes(work: Path) -> None:
    (work.parent / "home").mkdir(exist_ok=True)
    (work.parent / "home" / ".agentrc").write_text("modle = 3\n")
    done = agent(["models", "claude-sonnet-4-5"], work)
    assert done.returncode == 0
    assert "modle" in done.stderr


def test_a_reader_that_leaves_early_sees_no_traceback(work: Path) -> None:
    command = f"'{sys.executable}' -m agent_cli models | head -n 1"
    env = clean_env(work.parent / "home")
    done = subprocess.run(["bash", "-c", command], cwd=work, env=env, capture_output=True, text=True, check=False)
    assert "MODEL" in done.stdout
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
