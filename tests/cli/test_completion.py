"""The shell completes values: by the protocol of each shell, and once in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from agent_cli.cli.completion import join_assignment
from tests.support.imported_modules import loaded
from tests.support.program import clean_env

AGENT = Path(sys.executable).with_name("agent")
KEYS = {"OPENAI_API_KEY": "k"}


def complete(folder: Path, line: str, **env: str) -> list[str]:
    """The completions of the last word of a line, as bash asks for them."""
    words = line.split(" ")
    asked = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [AGENT], cwd=folder, env=clean_env(folder / "home", **asked, **env), capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def say(folder: Path, *prompts: str) -> None:
    """Save a session for each prompt."""
    script = folder / "script.toml"
    script.write_text('[[reply]]\ntext = "Ok."\n')
    for prompt in prompts:
        command = [AGENT, "-p", "--model", f"scripted:{script}", prompt]
        subprocess.run(command, cwd=folder, env=clean_env(folder / "home"), capture_output=True, check=True)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("agent --permission-mode p", ["plan"]),
        ("agent --permission-mode = p", ["plan"]),
        ("agent --permission-mode =", ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]),
        ("agent --effort h", ["high"]),
        ("agent -p --output-format j", ["json"]),
        ("agent fix the test --output-format s", ["stream-json"]),
        ("agent fix the test --output-l", ["--output-last-message"]),
        ("agent --model openai/gpt-4.1-m", ["openai/gpt-4.1-mini", "openai/gpt-4.1-mini-2025-04-14"]),
        ("agent --allowedTools Web", ["WebFetch", "WebSearch"]),
        ("agent eval --output-format jsonl", ["jsonl"]),
        ("agent approve --mode acc", ["acceptEdits"]),
        ("agent hooks test PreT", ["PreToolUse"]),
        ("agent mcp add --scope p", ["project"]),
        ("agent tools run Gr", ["Grep"]),
        ("agent sess", ["sessions"]),
        ("agent fix sess", []),
    ],
)
def test_values_are_completed(tmp_path: Path, line: str, values: list[str]) -> None:
    assert complete(tmp_path, line, **KEYS) == values


def test_models_are_those_of_the_providers_with_a_key(tmp_path: Path) -> None:
    found = complete(tmp_path, "agent --model ", **KEYS)
    assert "openai/gpt-5.6" in found
    assert {name.partition("/")[0] for name in found} == {"openai"}
    assert len({name.partition("/")[0] for name in complete(tmp_path, "agent --model ")}) > 5


def test_declared_servers_are_completed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.agentrc").write_text(
        '[mcp.servers.clock]\ncommand = "true"\n[mcp.servers.git]\ncommand = "true"\n'
    )
    assert complete(tmp_path, "agent mcp get cl") == ["clock"]


def test_sessions_are_completed_with_their_titles(tmp_path: Path) -> None:
    say(tmp_path, "fix $(touch pwned) the `test`", "write [docs]")
    latest, first = complete(tmp_path, "agent --resume ")
    assert latest.endswith("  # write docs")
    assert first.endswith("  # fix touch pwned the test")
    short = latest.partition(" ")[0]
    assert len(short) == 8
    for line in (f"agent -r {short[:6]}", f"agent sessions show {short}", f"agent undo {short}"):
        assert complete(tmp_path, line) == [short]


def test_sessions_to_decide_about_are_those_that_wait(tmp_path: Path) -> None:
    say(tmp_path, "done")
    assert complete(tmp_path, "agent approve ") == []
    script = tmp_path / "asks.toml"
    script.write_text('[[reply]]\n[[reply.calls]]\nname = "Write"\narguments = { file_path = "a", content = "x" }\n')
    command = [AGENT, "-p", "--on-ask", "suspend", "--model", f"scripted:{script}", "write it"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_env(tmp_path / "home"), capture_output=True, check=False)
    assert done.returncode == 3, done.stderr
    [waiting] = complete(tmp_path, "agent approve ")
    assert waiting in " ".join(complete(tmp_path, "agent --resume ")) and len(waiting) == 8
    assert complete(tmp_path, "agent reject ") == [waiting]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_values_with_titles(tmp_path: Path, shell: str) -> None:
    say(tmp_path, "it's a 'test': $(touch pwned)")
    env = {"_AGENT_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    env["_TYPER_COMPLETE_ARGS"] = "agent --resume "
    done = subprocess.run(
        [AGENT], cwd=tmp_path, env=clean_env(tmp_path / "home", **env), capture_output=True, text=True, check=True
    )
    if shell == "fish":
        value, _, title = done.stdout.strip().partition("\t")
        assert (len(value), title) == (8, "it s a test touch pwned")
    else:
        assert done.stdout.startswith("_arguments '*: :((\"")
        assert done.stdout.rstrip().endswith('":"it s a test touch pwned"))\'')


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: there is no bash")
def test_tab_in_a_real_bash(tmp_path: Path) -> None:
    env = clean_env(tmp_path / "home", PATH=f"{AGENT.parent}:{os.environ['PATH']}", PS1="ready> ", TERM="dumb")
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], cwd=str(tmp_path), env=env, encoding="utf-8", timeout=60
    )
    try:
        shell.sendline("bind 'set bell-style none'; eval \"$(_AGENT_COMPLETE=source_bash agent)\"; echo loaded=$?")
        shell.expect("loaded=0")
        shell.expect_exact("ready> ")
        for typed, whole in (
            ("--permission-mode p", "--permission-mode plan "),
            ("--effort=h", "--effort=high "),
            ("perm", "permissions "),
        ):
            shell.send(f"echo agent; agent {typed}\t")
            shell.expect_exact(f"agent {whole}")
            # Ctrl-C would be lost while bash still completes.
            shell.sendcontrol("u")
            shell.send("\r")
            shell.expect_exact("ready> ")
    finally:
        shell.close(force=True)


def test_completing_a_choice_loads_neither_sessions_nor_engine(tmp_path: Path) -> None:
    env = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": "agent --effort h", "COMP_CWORD": "2"}
    modules = loaded(tmp_path, **env)
    assert "agent_cli.cli.completion" in modules
    assert (
        not {
            "agent_cli.kernel.engine",
            "agent_cli.kernel.runtime",
            "agent_cli.kernel.session",
            "agent_cli.models",
            "rich",
        }
        & modules
    )


@pytest.mark.parametrize(
    ("words", "index", "joined"),
    [
        ("agent --effort = h", "3", ("agent --effort h", "2")),
        ("agent\n--effort\n=\nh", "3", ("agent\n--effort h", "2")),
        ("agent --effort =", "2", ("agent --effort ", "2")),
        ("agent --model = a/b --effort = h", "6", ("agent --model a/b --effort h", "4")),
        ("agent --effort h", "2", ("agent --effort h", "2")),
        ("agent a = b", "3", ("agent a = b", "3")),
    ],
)
def test_what_bash_splits_at_equals_signs_is_joined(words: str, index: str, joined: tuple[str, str]) -> None:
    env = {"_AGENT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": index}
    join_assignment(env)
    assert (env["COMP_WORDS"], env["COMP_CWORD"]) == joined
