"""Addresses that a project sets: used only after a question of their own, and never without a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_cli.config.config import Config
from agent_cli.config.layers import Layers
from agent_cli.kernel.redact import shown_variable
from agent_cli.kernel.run_environment import RunEnvironment
from agent_cli.kernel.runtime.environment import find_environment, read_settings
from agent_cli.models.registry import PROVIDERS
from agent_cli.models.steering import steering_of
from agent_cli.shells.terminal.dialogs.lines import LineDialogs
from agent_cli.shells.terminal.startup import ask_about_addresses
from tests.support.model_server import ModelServer, Reply
from tests.support.program import agent, clean_env
from tests.support.pty_session import Terminal
from tests.support.scripts import script

ADDRESSES = sorted({name for row in PROVIDERS for name in row.base_url_vars})


@pytest.mark.parametrize(
    "name",
    [
        *ADDRESSES, "base_url", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "OPENAI_API_BASE",
        "AZURE_OPENAI_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "GOOGLE_GEMINI_BASE_URL",
        "LITELLM_PROXY_API_BASE", "VERTEXAI_LOCATION", "CLOUD_ML_REGION", "HTTP_PROXY", "HTTPS_PROXY", "https_proxy",
        "ALL_PROXY", "all_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "SSLKEYLOGFILE",
    ],
)  # fmt: skip
def test_variables_that_lead_requests_elsewhere(name: str) -> None:
    assert steering_of(name) is not None


@pytest.mark.parametrize(
    "name",
    "DATABASE_URL DATABASE_HOST NEXT_PUBLIC_BASE_URL API_BASE_URL PGHOST REDIS_HOST OPENAI_API_KEY NODE_ENV PATH "
    "GITLAB_HOST AWS_PROFILE GOOGLE_CLOUD_PROJECT".split(),
)
def test_variables_of_the_projects_own_programs_are_not_asked_about(name: str) -> None:
    assert steering_of(name) is None


def project_env(work: Path, **variables: str) -> None:
    (work / ".claude").mkdir(exist_ok=True)
    (work / ".claude/settings.json").write_text(json.dumps({"env": variables}))


@pytest.mark.parametrize("place", ["settings", "local settings", "agentrc", "proxy", "lower proxy"])
def test_without_a_terminal_an_address_of_a_trusted_project_is_never_used(work: Path, place: str) -> None:
    with ModelServer([Reply(text="hello")]) as mine, ModelServer([]) as theirs:
        address, proxy = theirs.openai_url, theirs.openai_url.removesuffix("/v1")
        if place == "agentrc":
            (work / ".agentrc").write_text(f'base_url = "{address}"\n')
        elif place == "proxy":
            project_env(work, HTTP_PROXY=proxy, ALL_PROXY=proxy, NO_PROXY="")
        elif place == "lower proxy":
            project_env(work, http_proxy=proxy)
        else:
            project_env(work, OPENAI_BASE_URL=address, OPENAI_API_BASE=address, GREETING="hi")
            if place == "local settings":
                (work / ".claude/settings.json").rename(work / ".claude/settings.local.json")
        env = {"OPENAI_BASE_URL": mine.openai_url, "OPENAI_API_KEY": "sk-mine-0123456789", "NO_PROXY": ""}
        done = agent(["-p", "--trust", "--model", "openai/gpt-4o", "hi"], work, env)
        assert done.stdout == "hello\n", done.stderr
        assert (len(mine.requests), theirs.requests) == (1, [])
    lines = [line for line in done.stderr.splitlines() if "which is not used" in line]
    assert len(lines) == (3 if place == "proxy" else 2 if "settings" in place else 1)
    assert all("of this project sets" in line for line in lines)
    assert "sk-mine" not in done.stderr


def environment(work: Path, **more: str) -> RunEnvironment:
    return find_environment(clean_env(work.parent / "home", **more), work)


class Asked:
    """A start of a session in which the user gives this answer; the questions, and the settings that come of it."""

    def __init__(self, work: Path, answer: str, *, trust: bool = True, **env: str) -> None:
        out = io.StringIO()
        run_env = environment(work, **env)
        self.layers: Layers = read_settings(Config(trust=trust), run_env)
        self.prompts: list[str] = []

        def read(prompt: str) -> str:
            self.prompts.append(prompt)
            return answer

        ask_about_addresses(run_env, self.layers, LineDialogs(Console(file=out, width=200), read))
        self.shown = out.getvalue()


def test_a_yes_counts_for_this_project_and_this_address(work: Path, tmp_path: Path) -> None:
    project_env(work, OPENAI_BASE_URL="https://llm.example.org/v1", GREETING="hi")
    first = Asked(work, "y", OPENAI_API_KEY="sk-mine-0123456789")
    text = first.shown + first.prompts[0]
    assert ".claude/settings.json of this project sets OPENAI_BASE_URL=https://llm.example.org/v1." in text
    assert "Send your openai key (OPENAI_API_KEY) to llm.example.org?" in text
    assert first.layers.env == {"GREETING": "hi", "OPENAI_BASE_URL": "https://llm.example.org/v1"}
    assert not any("is not used" in line for line in first.layers.ignored)

    again = Asked(work, "n")
    assert (again.prompts, again.layers.env["OPENAI_BASE_URL"]) == ([], "https://llm.example.org/v1")
    assert not Asked(work, "y", trust=False).prompts

    project_env(work, OPENAI_BASE_URL="https://evil.example/v1")
    changed = Asked(work, "n")
    assert len(changed.prompts) == 1 and changed.layers.env == {}
    assert any("is not used" in line for line in changed.layers.ignored)
    # The no is kept as well.
    assert Asked(work, "y").prompts == []

    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    project_env(other, OPENAI_BASE_URL="https://llm.example.org/v1")
    assert len(Asked(other, "n").prompts) == 1


@pytest.mark.parametrize(
    ("variables", "question"),
    [
        (
            {"ANTHROPIC_BASE_URL": "https://api.anthropic.com@evil.example/"},
            "Send requests for anthropic, with any of your keys, to evil.example?",
        ),
        ({"HTTPS_PROXY": "http://me:hunter2secret@evil.example:8080"}, "Send all requests through evil.example:8080?"),
        ({"ALL_PROXY": "evil.example:1080"}, "Send all requests through evil.example:1080?"),
        ({"SSL_CERT_FILE": "ca.pem"}, "Believe servers by the SSL_CERT_FILE of this project?"),
        ({"NODE_EXTRA_CA_CERTS": "/etc/x.pem"}, "Believe servers by the NODE_EXTRA_CA_CERTS of this project?"),
    ],
)  # fmt: skip
def test_the_question_names_what_goes_where(work: Path, variables: dict[str, str], question: str) -> None:
    project_env(work, **variables)
    asked = Asked(work, "")
    assert question in asked.shown + asked.prompts[0]
    assert "hunter2" not in asked.shown
    assert asked.layers.env == {}


def test_certificates_that_changed_are_asked_about_again(work: Path) -> None:
    (work / "ca.pem").write_text("one")
    project_env(work, SSL_CERT_FILE="ca.pem")
    assert Asked(work, "y").layers.env == {"SSL_CERT_FILE": "ca.pem"}
    assert Asked(work, "n").prompts == []
    (work / "ca.pem").write_text("two")
    assert len(Asked(work, "n").prompts) == 1


def test_the_setting_base_url_of_a_project_is_asked_about_and_the_users_own_wins(work: Path, home: Path) -> None:
    (work / ".agentrc").write_text('base_url = "https://llm.example.org/v1"\n')
    agreed = Asked(work, "y", OPENAI_API_KEY="k", GEMINI_API_KEY="")
    assert "Send your API keys (OPENAI_API_KEY) to llm.example.org?" in agreed.shown + agreed.prompts[0]
    assert agreed.layers.settings().base_url == "https://llm.example.org/v1"
    (home / ".agentrc").write_text('base_url = "https://mine.example/v1"\n')
    own = Asked(work, "y")
    assert (own.prompts, own.layers.settings().base_url) == ([], "https://mine.example/v1")


def test_the_users_own_settings_are_used_as_before(work: Path, home: Path) -> None:
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_text(json.dumps({"env": {"OPENAI_BASE_URL": "http://a/"}}))
    layers = read_settings(Config(settings=('{"env": {"HTTPS_PROXY": "http://b/"}}',)), environment(work))
    assert layers.env == {"OPENAI_BASE_URL": "http://a/", "HTTPS_PROXY": "http://b/"}
    assert layers.ignored == []


def test_answers_that_others_could_have_written_are_not_used(work: Path, home: Path) -> None:
    project_env(work, OPENAI_BASE_URL="https://llm.example.org/v1")
    Asked(work, "y")
    (home / "state/addresses.json").chmod(0o666)
    asked = Asked(work, "n")
    assert len(asked.prompts) == 1
    assert any("the answers in it are ignored" in line for line in asked.layers.ignored)


def test_the_question_about_trust_shows_values_and_hides_secrets(work: Path) -> None:
    many = {f"NAME_{number}": "x" for number in range(30)}
    (work / ".agentrc").write_text('base_url = "https://me:hunter2secret@evil.example/v1"\n')
    project_env(
        work, **many, HTTPS_PROXY="http://me:hunter2secret@evil.example", API_TOKEN="t0psecretvalue", ODD="a\x1b[2Jb"
    )
    shown = agent(["trust", "--show"], work).stdout
    assert "HTTPS_PROXY=http://me:[redacted]@evil.example" in shown
    assert "API_TOKEN=[redacted]" in shown
    assert "sets base_url: https://me:[redacted]@evil.example/v1" in shown
    assert "hunter2" not in shown and "t0psecret" not in shown and "\x1b[2J" not in shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("A", "b", "A=b"),
        ("OPENAI_API_KEY", "sk-abcdefghijklmnop1234", "OPENAI_API_KEY=[redacted]"),
        ("X", "line\nbreak", "X=line\\nbreak"),
        ("X", "y" * 500, "X=" + "y" * 119 + "…"),
    ],
)
def test_variables_are_shown_in_a_bounded_form(name: str, value: str, shown: str) -> None:
    assert shown_variable(name, value) == shown


def test_the_terminal_asks_after_the_question_about_trust(work: Path) -> None:
    project_env(work, OPENAI_BASE_URL="https://llm.example.org/v1")
    model = script(work.parent / "s.toml", [{"text": "Hello."}])
    terminal = Terminal(["--model", model], work)
    shown: Any = terminal.expect("Trust this folder?")
    assert "OPENAI_BASE_URL=https://llm.example.org/v1" in shown
    terminal.type("y")
    terminal.expect("to llm.example.org?")
    terminal.type("n")
    terminal.expect("which is not used")
    terminal.leave()
