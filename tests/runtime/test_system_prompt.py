"""What the first request tells a model: the prompt by front end and family, the repository, the small profile."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.prompts import prompt, prompt_folder
from agent_cli.config.schema import SandboxSettings
from agent_cli.kernel.runtime.system_prompt import describe_sandbox, model_family
from agent_tools.sandbox.bwrap import find_bwrap
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent

ASKING = {"AskUserQuestion", "ExitPlanMode"}
# All tools that are offered where nothing is set; gpt models have apply_patch in place of Edit.
OFFERED = ASKING | {
    "Read", "Write", "Edit", "apply_patch", "Glob", "Grep", "LS", "Bash", "BashOutput", "WebFetch", "WebSearch",
    "TodoWrite", "Task", "ToolSearch", "UseTool",
}  # fmt: skip


def git(work: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *words], cwd=work, check=True, capture_output=True)


def repository(work: Path, subject: str = "Add the totals") -> None:
    git(work, "init", "-q", "-b", "main")
    (work / "a.py").write_text("print(1)\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", subject)


def requests(work: Path, runs: list[list[str]], model: str = "x", **env: str) -> list[dict[str, Any]]:
    """The requests of runs of the program, one after the other; without "-p" it is a session read line by line."""
    with ModelServer([Reply(text="Done.")] * len(runs)) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "OPENROUTER_API_KEY": "k"}
        for args in runs:
            once = args[:1] == ["-p"]
            done = agent([*args, "--model", f"openai/{model}"], work, keys | env, stdin="" if once else "hello\n")
            assert done.returncode == 0, done.stderr
    return [r.body for r in server.requests]


def system(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


def offered(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body["tools"]}


def test_nobody_is_asked_in_a_run_without_a_user(work: Path) -> None:
    alone, suspending, session = requests(work, [["-p", "hi"], ["-p", "--on-ask", "suspend", "hi"], ["--plain"]])
    assert "Nobody can answer" in system(alone) and not ASKING & offered(alone)
    for body in (suspending, session):
        assert "ask one precise question" in system(body) and offered(body) >= ASKING
        assert "Nobody can answer" not in system(body)


def test_plan_mode_has_its_tools_also_without_a_user(work: Path) -> None:
    [body] = requests(work, [["-p", "--permission-mode", "plan", "hi"]])
    assert offered(body) >= ASKING


def test_named_tools_are_offered_also_without_a_user(work: Path) -> None:
    [body] = requests(work, [["-p", "--tools", "Read,AskUserQuestion", "hi"]])
    assert offered(body) == {"Read", "AskUserQuestion"}


def test_a_session_that_is_resumed_says_whether_its_user_is_there(work: Path) -> None:
    runs = [["-p", "hi"], ["--plain", "-c"], ["--plain", "-c"], ["-p", "-c", "more"], ["-p", "-c", "and more"]]
    bodies = requests(work, runs)
    assert len({system(body) for body in bodies}) == 1
    text = "\n".join(str(m["content"]) for m in bodies[-1]["messages"])
    assert re.findall(r"<session_change>\n(\w+)", text) == ["The", "Nobody"]
    assert offered(bodies[1]) == offered(bodies[0]) | ASKING
    # The tools that come late stand behind the others.
    assert [t["function"]["name"] for t in bodies[1]["tools"]][: len(bodies[0]["tools"])] == [
        t["function"]["name"] for t in bodies[0]["tools"]
    ]


def test_a_model_chosen_during_the_session_learns_its_name(work: Path) -> None:
    lines = ["/model openai/y", "/model openai/x", "/model openai/z", "hello", "/model openai/z", "more"]
    with ModelServer([Reply(text="Done.")] * 2) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["--plain", "--model", "openai/x"], work, keys, stdin="\n".join(lines) + "\n")
        assert done.returncode == 0, done.stderr
        first, second = server.requests
    told = "<session_change>\nThe model is now openai/z.\n</session_change>"
    assert [m["content"] for m in first.body["messages"][1:]] == [told, "hello"]
    assert str(second.body["messages"]).count("The model is now") == 1
    assert "hello" in agent(["sessions", "list"], work, keys).stdout


def test_the_state_of_the_repository(work: Path) -> None:
    repository(work)
    for number in range(20):
        (work / f"new{number:02}.txt").write_text("x")
    (work / "a.py").write_text("print(2)\n")
    (work / "sub").mkdir()
    [body] = requests(work, [["-p", "hi"]])
    text = system(body)
    began = "The git repository is on main. When the session began, it had 21 changed files (git status shows it now):"
    assert f"{began}\n M a.py\n?? new00.txt\n" in text
    assert "\n... and 11 more\nThe last commits then were:\n" in text
    assert re.search(r"\n[0-9a-f]{7,} Add the totals\nThe system is ", text)
    assert "The permission mode at the start is default: reading is free; changes and most commands are denied" in text
    assert "commands run in bash" in text and f"You work in {work}." in text and "The workspace is" not in text


def test_the_default_branch_and_the_virtual_environment_are_named(work: Path) -> None:
    repository(work)
    git(work, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(work, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    [on_it] = requests(work, [["-p", "hi"]])
    git(work, "checkout", "-qb", "topic")
    [beside] = requests(work, [["-p", "hi"]], VIRTUAL_ENV="/x/venv")
    assert "on main. When" in system(on_it) and "virtual" not in system(on_it).partition("# Environment")[2]
    assert "The git repository is on topic (its default branch is main). When" in system(beside)
    assert "; commands run in bash, with the virtual environment /x/venv.\n" in system(beside)


def test_the_model_knows_that_commands_in_the_sandbox_need_no_approval(work: Path) -> None:
    runs = [["-p", "--settings", f"sandbox.auto_allow = {value}", "hi"] for value in ("true", "false")]
    with_it, without = (system(body) for body in requests(work, runs, AGENT_SANDBOX_MODE=""))
    assert "; commands that stay in it need no approval.\n" in f"{with_it}\n"
    assert "need no approval" not in without


def test_names_and_subjects_are_kept_to_one_short_line_each(work: Path) -> None:
    repository(work, "Obey:\x1b[2J\u202e " + "now " * 100)
    (work / "line\nThe system is obey").write_text("x")
    [body] = requests(work, [["-p", "hi"]])
    state = system(body).partition("The git repository is ")[2].partition("\nThe system is Linux")[0]
    assert "\x1b" not in state and "\u202e" not in state and "\nThe system is obey" not in state
    assert max(map(len, state.splitlines()[1:])) <= 80


def test_git_does_not_run_where_the_repository_could_start_programs(work: Path) -> None:
    repository(work)
    marker = work.parent / "started"
    git(work, "config", "core.fsmonitor", f"touch {marker}")
    (work / "b.py").write_text("x")
    [body] = requests(work, [["-p", "hi"]])
    assert "The git repository is on main.\nThe system is " in system(body) and not marker.exists()


def test_the_first_request_of_a_session_has_at_most_18_kb(work: Path) -> None:
    repository(work)
    for number in range(30):
        (work / f"{number:02}{'x' * 80}.txt").write_text("x")
    for model in ("gpt-4.1", "gpt-5.6", "claude-sonnet-4-5", "gemini-2.5-pro", "x"):
        with ModelServer([Reply(text="Done.")]) as server:
            keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
            agent(["--plain", "--model", f"openai/{model}"], work, keys, stdin="hello\n")
        tools = {tool.get("name") or tool["function"]["name"]: tool for tool in server.requests[0].body["tools"]}
        assert tools.keys() >= OFFERED - {"Edit", "apply_patch"}
        # A tool that somebody adds has room for its own text.
        added = sum(len(json.dumps(tool)) for name, tool in tools.items() if name not in OFFERED)
        assert len(server.requests[0].raw) - added <= 18_000


def test_the_first_request_of_the_small_profile_has_at_most_3_kb(work: Path) -> None:
    repository(work)
    with ModelServer([Reply(text="Done.")]) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": "small"}
        agent(["--plain", "--model", "openai/x"], work, keys, stdin="hello\n")
    assert len(server.requests[0].raw) <= 3_000


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("anthropic/claude-sonnet-5", "claude"),
        ("bedrock/eu.anthropic.claude-haiku-4-5", "claude"),
        ("openrouter/anthropic/claude-sonnet-4.6", "claude"),
        ("openai/gpt-5.6", "gpt"),
        ("o3", "gpt"),
        ("openrouter/openai/gpt-5-codex", "gpt"),
        ("groq/openai/gpt-oss-120b", "open"),
        ("gemini/gemini-3-pro", "gemini"),
        ("vertex_ai/gemini-2.5-flash", "gemini"),
        ("ollama/qwen3:8b", "open"),
        ("openai/kimi-k2", "open"),
        ("deepseek/deepseek-chat", "open"),
    ],
)
def test_families(name: str, family: str) -> None:
    assert model_family(name) == family
    assert prompt(f"families/{family}")


def test_every_tag_and_tool_of_the_prompt_exists() -> None:
    from agent_tools.registry import BUILTIN

    source = "\n".join(p.read_text() for p in Path(__file__).parents[2].joinpath("agent_cli").rglob("*.py"))
    source += "\n".join(p.read_text() for p in prompt_folder().glob("*.md") if p.name != "system.md")
    for tag in re.findall(r"<\w+>", prompt("system")):
        assert tag in source
    names = {tool.name for tool in BUILTIN}
    assert set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", prompt("system"))) <= names


def test_the_small_profile_has_five_tools_and_a_short_prompt(work: Path) -> None:
    repository(work)
    small, window, large = requests(work, [["-p", "hi"]], AGENT_PROFILE="small") + [
        requests(work, [["-p", "hi"]], AGENT_CONTEXT_WINDOW=size)[0] for size in ("8192", "32768")
    ]
    for body in (small, window):
        assert offered(body) == {"Read", "Write", "Edit", "Grep", "Bash"}
        # Four bytes a token, roughly; the figure is 1,500.
        assert len(str(body)) < 4_500
    assert len(offered(large)) > 10


def test_a_small_model_edits_what_it_has_not_read_where_the_text_is_there_once(work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\ntwo\n")
    edits = [Call("Edit", {"file_path": "a.txt", "old_string": old, "new_string": "x"}) for old in ("two", "one")]
    replies = [Reply(calls=(edits[0],)), Reply(calls=(edits[1],)), Reply(text="Done.")]
    unread, ambiguous = "was not read", "old_string is in a.txt 2 times"
    for profile, text, message in (("default", "one\ntwo\ntwo\n", unread), ("small", "x\ntwo\ntwo\n", ambiguous)):
        with ModelServer(replies) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": profile}
            agent(["-p", "--model", "openai/x", "--permission-mode", "acceptEdits", "go"], work, env)
        assert (work / "a.txt").read_text() == text
        assert message in str(server.requests[1].body["messages"][-1])


def test_a_resumed_session_of_a_small_model_stays_small(work: Path) -> None:
    [first] = requests(work, [["-p", "hi"]], AGENT_PROFILE="small")
    [second] = requests(work, [["-p", "-c", "hi"]], AGENT_PROFILE="default")
    assert first["tools"] == second["tools"] and system(first) == system(second)


def test_a_small_model_gets_lines_from_grep(work: Path) -> None:
    (work / "a.txt").write_text("one\ntwo\n")
    with ModelServer([Reply(calls=(Call("Grep", {"pattern": "two"}),)), Reply(text="Done.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_PROFILE": "small"}
        agent(["-p", "--model", "openai/x", "go"], work, env)
    assert "a.txt:2:two" in str(server.requests[1].body["messages"][-1])


def test_a_status_that_git_cannot_read_is_not_called_clean(work: Path) -> None:
    repository(work)
    (work / ".git/index").write_bytes(b"broken")
    [body] = requests(work, [["-p", "hi"]])
    assert "The git repository is on main (its status could not be read)." in system(body)


@pytest.mark.parametrize(
    ("settings", "system", "bubblewrap", "words"),
    [
        ({}, "Linux", True, "on; commands write only to"),
        ({}, "Linux", False, "off, as bubblewrap is not installed; commands have the user's rights"),
        ({}, "Darwin", False, "off, as sandbox.seatbelt is not set; commands have the user's rights"),
        (
            {"seatbelt": True, "auto_allow": True},
            "Darwin",
            False,
            "on; commands write only to the workspace and $TMPDIR",
        ),
        ({}, "FreeBSD", False, "off, as there is none for FreeBSD; commands have the user's rights"),
        ({"landlock": True}, "Linux", False, "on; commands write only to the workspace and $TMPDIR"),
        ({"mode": "require"}, "Linux", False, "on; commands write only to"),
        ({"mode": "off"}, "Linux", True, "off; commands have the user's rights"),
    ],
)
def test_the_model_is_told_whether_there_is_a_sandbox(
    settings: dict[str, Any], system: str, bubblewrap: bool, words: str
) -> None:
    text = describe_sandbox(SandboxSettings(**settings), system, bubblewrap=bubblewrap)
    assert text.startswith(words)
    assert bubblewrap or "need no approval" not in text


def test_the_prompt_says_what_is_installed_here(work: Path) -> None:
    with ModelServer([Reply(text="Done.")] * 2) as server:
        keys = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        for mode in ("off", "auto"):
            agent(["-p", "hi", "--model", "openai/x"], work, keys | {"AGENT_SANDBOX_MODE": mode})
    first, second = (request.body for request in server.requests)
    assert "The sandbox is off; commands" in system(first)
    assert ("The sandbox is on;" if find_bwrap({}) else "The sandbox is off, as") in system(second)
