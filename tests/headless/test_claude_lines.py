"""Command lines and settings as users of Claude Code have them: `agent` in the place of `claude`, nothing else changed.

The lines have the shapes of public READMEs, workflows and scripts, in words of our own.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from agent_cli.cli.hints import FOREIGN_COMMANDS, command_hint, option_hint
from agent_cli.config.claude_keys import UNUSED, translate
from tests.support.fork_server import ROOT
from tests.support.host_client import HostClient
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call, script

SANDBOX = {"IS_SANDBOX": "1"}
SCHEMA = '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}'


def scripted(work: Path, *replies: dict[str, Any]) -> dict[str, str]:
    """The environment in which a line without --model asks this script."""
    return {"AGENT_MODEL": script(work.parent / "s.toml", list(replies) or [{"text": "Ok."}]), **SANDBOX}


LINES = {
    "text": [
        "-p 'explain this project'",
        "-p 'summarize' --output-format text",
        "--print 'reply only: ok' --max-turns 1",
        "-p 'fix the lint errors' --allowedTools 'Edit,Write,Bash'",
        "-p 'review' --allowedTools 'Bash(git diff:*)' 'Bash(git log:*)' Read",
        "-p --allowedTools Read Grep Glob -- 'look around'",
        "-p 'audit' --allowedTools Read,Grep --disallowedTools 'Write,Edit,Bash(rm:*)'",
        "--dangerously-skip-permissions -p 'build it'",
        "--print --dangerously-skip-permissions -p 'build it'",
        "-p 'go' --permission-mode acceptEdits --max-turns 10 --verbose",
        "-p 'go' --permission-mode auto",
        "-p 'go' --permission-mode manual",
        "-p 'plan it' --permission-mode dontAsk",
        "-p --tools '' 'one sentence'",
        "-p --tools 'Read,Grep' 'find it'",
        "-p --model default 'hello'",
        "-p 'hello' --system-prompt 'You are terse.' --append-system-prompt 'Answer in English.'",
        "-p --system-prompt-file prompt.md 'hello'",
        "-p --append-system-prompt-file prompt.md 'hello'",
        "-p 'hello' --add-dir docs lib",
        "-p --add-dir docs lib -- 'compare both'",
        "-p --mcp-config mcp.json --strict-mcp-config 'hello'",
        "-p --settings settings.json 'hello'",
        "-p --setting-sources user,project 'hello'",
        "-p --agent reviewer --agents "
        + shlex.quote('{"reviewer": {"description": "Reviews", "prompt": "You review code.", "tools": ["Read"]}}')
        + " 'hello'",
        "-p --debug api,hooks 'hello'",
        "-p 'hello' --no-session-persistence --fallback-model haiku",
        "-p -n nightly 'hello' --max-budget-usd 1.5",
    ],
    "json": [
        "-p 'list all functions' --output-format json",
        "--dangerously-skip-permissions -p 'go' --output-format json",
        "-p --output-format json --max-turns 3 'go'",
        "-p --output-format=json --append-system-prompt 'short' 'go'",
    ],
    "stream-json": [
        "-p 'go' --output-format stream-json --verbose --include-partial-messages",
        "-p --output-format stream-json --verbose --agent general-purpose --add-dir docs 'go'",
    ],
}
CASES = [(kind, line) for kind, lines in LINES.items() for line in lines]


@pytest.mark.parametrize(("kind", "line"), CASES, ids=[line[:60] for _, line in CASES])
def test_a_public_line_runs(kind: str, line: str, work: Path) -> None:
    for name in ("docs", "lib"):
        (work / name).mkdir()
    (work / "prompt.md").write_text("You are brief.")
    (work / "mcp.json").write_text('{"mcpServers": {}}')
    (work / "settings.json").write_text(json.dumps({"env": {"A": "b"}, "cleanupPeriodDays": 3, "model": "default"}))
    done = agent(shlex.split(line), work, scripted(work))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if kind == "text":
        assert done.stdout == "Ok.\n"
        return
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["type"], last["subtype"], last["result"]) == ("result", "success", "Ok.")
    assert kind == "json" or json.loads(done.stdout.splitlines()[0])["subtype"] == "init"


def test_lines_that_read_standard_input(work: Path) -> None:
    for args, text in (
        (["-p"], "the whole prompt"),
        (["-p", "explain"], "a log"),
        (["-p", "--output-format=text"], "x"),
    ):
        done = agent(args, work, scripted(work), stdin=text)
        assert (done.returncode, done.stdout) == (0, "Ok.\n"), args


def test_a_session_is_resumed_by_the_id_of_its_result(work: Path) -> None:
    env = scripted(work, {"text": "One."}, {"text": "Two."}, {"text": "Three."})
    first = json.loads(agent(["-p", "start", "--output-format", "json"], work, env).stdout)
    done = agent(["-p", "go on", "--resume", first["session_id"], "--output-format", "json"], work, env)
    assert json.loads(done.stdout)["session_id"] == first["session_id"]
    assert agent(["-c", "-p", "again"], work, env).returncode == 0


def test_a_schema_gives_structured_output(work: Path) -> None:
    env = scripted(work, {"calls": [call("StructuredOutput", ok=True)]}, {"text": "Ok."})
    done = agent(["-p", "check", "--output-format", "json", "--json-schema", SCHEMA], work, env)
    assert json.loads(done.stdout)["structured_output"] == {"ok": True}


@pytest.mark.parametrize("name", ["haiku", "sonnet", "opusplan", "sonnet[1m]", "claude-sonnet-4-5[1m]"])
def test_names_of_models(name: str, work: Path) -> None:
    with ModelServer([Reply(text="Ok.")]) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        done = agent(["-p", "hello", "--model", name], work, env)
    assert (done.returncode, done.stdout) == (0, "Ok.\n"), done.stderr
    (request,) = server.requests
    family = name.partition("[")[0].replace("opusplan", "sonnet").split("-")[-1 if name.startswith("s") else 0]
    assert "[" not in request.body["model"]
    assert family in request.body["model"] or name.startswith("claude")
    assert (request.headers.get("anthropic-beta") == "context-1m-2025-08-07") is name.endswith("[1m]")


def test_opusplan_plans_with_opus_and_works_with_sonnet(work: Path) -> None:
    """The mode changes in the middle of a turn, when its plan is approved."""
    touch = Call("Bash", {"command": "touch made"})
    plan = Call("ExitPlanMode", {"plan": "Make it."})
    replies = [Reply(text="Ready."), Reply(calls=(plan,)), Reply(calls=(touch,)), Reply(text="Made.")]
    with ModelServer(replies) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url, "IS_SANDBOX": "1"}
        args = ["--model", "opusplan", "--permission-prompt-tool", "stdio"]
        with HostClient(args, work, {"can_use_tool": allow}, **env) as host:
            host.say("hello")
            host.ask("set_permission_mode", mode="plan")
            done = host.say("make it")
        models = [str(r.body["model"]).split("-")[1] for r in server.requests]
    assert models == ["sonnet", "opus", "sonnet", "sonnet"] and (work / "made").exists()
    assert {name.partition("claude-")[2].partition("-")[0] for name in done["modelUsage"]} == {"opus", "sonnet"}


def test_opusplan_leaves_the_models_of_commands_and_sub_agents(work: Path) -> None:
    (work / ".claude/commands").mkdir(parents=True)
    (work / ".claude/commands/quick.md").write_text("---\nmodel: haiku\n---\nPlan it quickly.")
    kinds = {"finder": {"description": "Finds.", "prompt": "Find it.", "model": "haiku"}}
    find = Call("Task", {"subagent_type": "finder", "description": "find", "prompt": "find it"})
    replies = [Reply(calls=(find,)), Reply(text="Found."), Reply(text="Planned."), Reply(text="Quick.")]
    with ModelServer(replies) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        args = ["--model", "opusplan", "--permission-mode", "plan", "--setting-sources", "user,project"]
        with HostClient([*args, "--permission-prompt-tool", "stdio"], work, {"can_use_tool": allow}, **env) as host:
            host.ask("initialize", agents=kinds)
            assert host.say("plan it")["result"] == "Planned."
            assert host.say("/quick")["result"] == "Quick."
        models = [str(r.body["model"]).split("-")[1] for r in server.requests]
    assert models == ["opus", "haiku", "opus", "haiku"]


def allow(fields: dict[str, Any]) -> dict[str, Any]:
    return {"behavior": "allow", "updatedInput": fields["input"]}


def test_beta_features_are_sent_to_anthropic_only(work: Path) -> None:
    with ModelServer([Reply(text="Ok."), Reply(text="Ok.")]) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url}
        env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        for model in ("anthropic/claude-x", "openai/gpt-test"):
            agent(["-p", "hello", "--model", model, "--betas", "a-2025-01-01,b-2025-02-02"], work, env)
    assert [r.headers.get("anthropic-beta") for r in server.requests] == ["a-2025-01-01,b-2025-02-02", None]


@pytest.mark.parametrize("turns", [1, 2])
def test_exactly_as_many_requests_as_turns(turns: int, work: Path) -> None:
    reply = Reply(calls=(Call("Read", {"file_path": "a.txt"}),))
    with ModelServer([reply] * 5) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        args = ["-p", "read", "--model", "openai/gpt-test", "--max-turns", str(turns), "--output-format", "json"]
        done = agent(args, work, env)
    found = json.loads(done.stdout)
    assert (done.returncode, found["subtype"], len(server.requests)) == (4, "error_max_turns", turns)
    assert "Read" in found["result"]


def test_the_answer_goes_to_a_file_too_and_another_folder_is_worked_in(work: Path, tmp_path: Path) -> None:
    out = tmp_path / "answer.txt"
    done = agent(["-C", str(work), "-p", "where?", "-o", str(out), "--allowedTools", "Bash"], tmp_path / "work",
                 scripted(work, {"calls": [call("Bash", command="pwd")]}, {"text": "There."}))  # fmt: skip
    assert (done.stdout, out.read_text()) == ("There.\n", "There.\n")
    assert agent(["-C", "/does/not/exist", "-p", "q"], work).returncode == 2


@pytest.mark.parametrize(
    ("command", "shown"),
    [("/context", "Context: "), ("/cost", "tokens in"), ("/compact", ""), ("/clear", "")],
)
def test_commands_of_the_session_are_answered(command: str, shown: str, work: Path) -> None:
    env = scripted(work, {"text": "Never sent."})
    done = agent(["-p", command], work, env)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert "Never sent." not in done.stdout


def test_settings_of_claude_code_never_end_a_run(work: Path) -> None:
    (work.parent / "home" / ".claude").mkdir(parents=True)
    everything = {key: {"x": 1} for key in UNUSED} | {
        "env": {"GREETING": "from settings"}, "statusLine": {"type": "command", "command": "date"}, "theme": "dark",
        "effortLevel": "high", "permissions": {"defaultMode": "auto", "allow": ["Bash(printenv:*)"]}, "model": "opus",
        "sandbox": {"enabled": True, "network": {"allowedDomains": ["pypi.org"], "allowLocalBinding": True}},
        "brandNew": [1], "spinnerVerbs": 7,
    }  # fmt: skip
    (work.parent / "home" / ".claude" / "settings.json").write_text(json.dumps(everything))
    env = scripted(work, {"calls": [call("Bash", command="printenv GREETING")]}, {"text": "Ok."})
    done = agent(["-p", "hello", "--output-format", "stream-json"], work, env)
    assert done.returncode == 0, done.stderr
    assert "from settings" in done.stdout
    assert done.stderr == ""


def test_settings_on_the_command_line_name_what_has_no_effect_once(work: Path) -> None:
    env = scripted(work)
    done = agent(["-p", "hello", "--settings", '{"cleanupPeriodDays": 3, "env": {"A": "b"}, "modle": "x"}'], work, env)
    assert (done.returncode, done.stdout) == (0, "Ok.\n")
    assert done.stderr.count("cleanupPeriodDays has no effect") == 1
    assert "modle has no effect" in done.stderr
    assert "model?" in done.stderr
    done = agent(["-p", "hello", "--settings", '{"permissions": {"deny": 7}}'], work, env)
    assert done.returncode == 2


def test_the_environment_of_an_untrusted_project_waits_for_trust(work: Path) -> None:
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.json").write_text('{"env": {"GREETING": "from the project"}}')
    steps = [{"calls": [call("Bash", command='echo "[$GREETING]"')]}, {"text": "Ok."}]
    for more, shown in (([], "[]"), (["--setting-sources", "project"], "[from the project]")):
        args = ["-p", "hello", "--allowedTools", "Bash", "--output-format", "stream-json", *more]
        assert shown in agent(args, work, scripted(work, *steps)).stdout


def test_setting_sources_choose_what_is_read(work: Path) -> None:
    home = work.parent / "home"
    (home / ".agent").mkdir(parents=True)
    (home / ".agent" / "AGENTS.md").write_text("I am the user's memory.")
    (work / "AGENTS.md").write_text("I am the project's memory.")
    for sources, user, project in (("user", True, False), ("project", False, True), ("", False, False)):
        with ModelServer([Reply(text="Ok.")]) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
            agent(["-p", "hi", "--model", "openai/gpt-test", f"--setting-sources={sources}"], work, env)
        sent = json.dumps(server.requests[0].body)
        assert ("the user's memory" in sent, "the project's memory" in sent) == (user, project), sources
    assert agent(["-p", "hi", "--setting-sources", "everything"], work, scripted(work)).returncode == 2


def test_a_profile_is_a_named_group_of_settings(work: Path) -> None:
    home = work.parent / "home"
    home.mkdir()
    model = scripted(work)["AGENT_MODEL"]
    (home / ".agentrc").write_text(f'model = "scripted:/missing"\n[profiles.ci]\nmodel = "{model}"\n')
    assert agent(["-p", "hello", "--profile", "ci"], work).stdout == "Ok.\n"
    done = agent(["-p", "hello", "--profile", "other"], work)
    assert (done.returncode, done.stderr) == (2, "agent: --profile: there is no profile other; there are: ci\n")
    done = agent(["-p", "hello", "--profile", "small", "--output-format", "stream-json"], work, scripted(work))
    assert len(json.loads(done.stdout.splitlines()[0])["tools"]) < 8


def test_an_agent_gives_prompt_and_tools(work: Path) -> None:
    agents = json.dumps({"reader": {"description": "Reads", "prompt": "You only read.", "tools": ["Read", "Grep"]}})
    with ModelServer([Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        agent(["-p", "hi", "--model", "openai/gpt-test", "--agent", "reader", "--agents", agents], work, env)
    body = server.requests[0].body
    assert "You only read." in json.dumps(body)
    assert {tool["function"]["name"] for tool in body["tools"]} == {"Read", "Grep"}
    done = agent(["-p", "hi", "--agent", "nobody"], work, scripted(work))
    assert done.returncode == 2
    assert "there is no agent nobody" in done.stderr


def test_a_name_is_found_by_resume(work: Path) -> None:
    env = scripted(work, {"text": "One."}, {"text": "Two."})
    agent(["-p", "start", "-n", "nightly run"], work, env)
    assert agent(["-p", "more", "--resume", "nightly run"], work, env).returncode == 0
    assert "nightly run" in agent(["sessions", "list"], work, env).stdout


def test_debug_goes_where_it_is_asked_to(work: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    agent(["-p", "hello", "--debug-file", str(log)], work, scripted(work))
    assert [json.loads(line)["kind"] for line in log.read_text().splitlines()] == ["request", "response"]
    done = agent(["-p", "hello", "--debug-to-stderr"], work, scripted(work))
    assert '"kind": "request"' in done.stderr
    assert done.stdout == "Ok.\n"


@pytest.mark.parametrize(
    ("chosen", "kinds"),
    [
        ("api", {"request", "response"}),
        ("hooks", {"HookStarted", "HookRan"}),
        ("tools,hook", {"ToolRequested", "ToolFinished", "HookStarted", "HookRan"}),
        ("!api,!hooks", {"ToolRequested", "ToolFinished"}),
        ("!statsig", {"request", "response", "ToolRequested", "ToolFinished", "HookStarted", "HookRan"}),
    ],
)
def test_a_filter_of_debug_chooses_what_is_written(work: Path, tmp_path: Path, chosen: str, kinds: set[str]) -> None:
    log = tmp_path / "log.jsonl"
    hook = {"matcher": "LS", "hooks": [{"type": "command", "command": "true"}]}
    settings = json.dumps({"hooks": {"PreToolUse": [hook]}})
    env = scripted(work, {"calls": [call("LS", path=".")]}, {"text": "Ok."})
    done = agent(["-p", "--debug", chosen, "hello", "--debug-file", str(log), "--settings", settings], work, env)
    assert done.stdout == "Ok.\n", done.stderr
    assert {json.loads(line)["kind"] for line in log.read_text().splitlines()} == kinds


def test_a_filter_of_debug_that_lets_nothing_through_says_so(work: Path) -> None:
    done = agent(["-p", "--debug", "mcp", "hello"], work, scripted(work))
    assert "--debug mcp: nothing is written; choose from api, hooks, tools" in done.stderr


def test_words_that_are_commands_elsewhere_are_not_sent(work: Path) -> None:
    for line in ("update", "config set theme dark", "exec 'fix the tests'", "plugins list"):
        done = agent(shlex.split(line), work, scripted(work))
        assert done.returncode == 2, line
        assert "agent --" in done.stderr, line
    assert command_hint(("update", "the", "readme"), ()) == ""


def test_words_of_other_agents_lead_to_the_commands_that_there_are() -> None:
    commands = {file.stem for file in (ROOT / "agent_cli/cli/commands").glob("[a-z]*.py")}
    assert not commands & FOREIGN_COMMANDS.keys()
    for word, command in (("plugins", "agent plugin"), ("web", "agent serve"), ("migrate", "agent import")):
        assert command in command_hint((word,), ())


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("--full-auto", "acceptEdits"), ("--headless", "-p"), ("--cwd", "-C"), ("--max-steps", "--max-turns"),
     ("--alowedTools", "--allowedTools"), ("--chrome", "leave it out"), ("--non-interactve", "-p")],
)  # fmt: skip
def test_unknown_options_are_explained_by_meaning(wrong: str, hint: str) -> None:
    assert hint in option_hint(wrong)


def test_an_unknown_option_is_a_mistake_with_a_hint(work: Path) -> None:
    done = agent(["-p", "--full-auto", "hello"], work)
    assert done.returncode == 2
    assert "No such option: --full-auto. Here: --permission-mode acceptEdits" in done.stderr


def test_every_key_is_taken_or_named() -> None:
    found = translate(dict.fromkeys(UNUSED, "x"), lambda key: False)
    assert set(found.unused) == set(UNUSED)
    taken = translate({"apiKeyHelper": "print-key", "env": {"A": 1}, "editorMode": "vim"}, lambda key: False)
    assert (taken.key_helper, taken.env, taken.settings) == ("print-key", {"A": "1"}, {"terminal": {"vim": True}})
