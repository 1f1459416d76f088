"""The options in `claude --help` (2.1.332): those that have their effect here, and the answers to the others."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from agent_cli.cli.hints import FOREIGN_COMMANDS, command_hint, option_hint
from tests.support.extension_files import home_of
from tests.support.ide_editor import StandIn
from tests.support.model_server import Call, ModelServer, Received, Reply
from tests.support.plugin_folders import command_hook, plugin_folder
from tests.support.program import agent

UUID = "6f1c1b4e-5f0e-4f51-9f0c-9d3c1f1d2e3a"
AGENTS = json.dumps({"critic": {"description": "Reviews", "prompt": "You are the critic.", "tools": ["Read"]}})
SERVERS = json.dumps({"mcpServers": {"desk": {"command": "true"}}})
SCHEMA = json.dumps({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
BASH = Reply(calls=(Call("Bash", {"command": "touch made"}),))
OUTSIDE = Reply(calls=(Call("Read", {"file_path": "/etc/hostname"}),))
STREAM = "--output-format stream-json --verbose"


class Run:
    """A line that has run: its process, the requests to the model, and the folder it ran in."""

    def __init__(self, done: CompletedProcess[str], requests: list[Received], work: Path) -> None:
        self.done, self.requests, self.work = done, requests, work

    @property
    def body(self) -> dict[str, Any]:
        return self.requests[0].body

    @property
    def sent(self) -> str:
        return json.dumps(self.body)

    @property
    def system(self) -> str:
        return json.dumps(self.body["system"])

    @property
    def tools(self) -> set[str]:
        return {tool["name"] for tool in self.body["tools"]}

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.done.stdout.splitlines()]

    @property
    def results(self) -> str:
        """What the model was told of its calls."""
        return json.dumps([message for r in self.requests for message in r.body["messages"][-1:]])

    def types(self) -> list[str]:
        return [line["type"] for line in self.lines]


def run(work: Path, line: str, *replies: Reply, stdin: str = "") -> Run:
    with ModelServer([*replies, Reply(text="Ok.")], repeat=True) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.anthropic_url, "IS_SANDBOX": "1"}
        done = agent(shlex.split(line), work, env, stdin=stdin)
        return Run(done, list(server.requests), work)


def customize(work: Path) -> None:
    """Put one of each thing that users add into the home folder."""
    claude = home_of(work) / ".claude"
    (claude / "commands").mkdir(parents=True)
    (claude / "skills/dust").mkdir(parents=True)
    (claude / "CLAUDE.md").write_text("Remember the milk.")
    (claude / "commands/sweep.md").write_text("Sweep the floor.")
    (claude / "skills/dust/SKILL.md").write_text("---\ndescription: Dusts shelves\n---\nDust.")
    settings = {"hooks": {"UserPromptSubmit": command_hook("touch hooked")}, "model": "haiku"}
    (claude / "settings.json").write_text(json.dumps(settings))
    (home_of(work) / ".agentrc").write_text('[mcp.servers.desk]\ncommand = "true"\n')


Check = Callable[[Run], object]


def plain(check: Check, line: str, *replies: Reply, stdin: str = "") -> Callable[[Path], object]:
    return lambda work: check(run(work, line, *replies, stdin=stdin))


def message(text: str) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n"


def resumed(*options: str) -> Callable[[Path], object]:
    def test(work: Path) -> bool:
        run(work, f"-p first --session-id {UUID}")
        return "first" in run(work, f"-p again {' '.join(options)}").sent

    return test


def forked(work: Path) -> bool:
    run(work, f"-p first --session-id {UUID}")
    found = run(work, f"-p again --resume {UUID} --fork-session --output-format json")
    return "first" in found.sent and found.lines[0]["session_id"] != UUID


def not_saved(work: Path) -> bool:
    found = run(work, "-p hi --no-session-persistence --output-format json").lines[0]["session_id"]
    return run(work, f"-p again --resume {found}").done.returncode == 2


def in_worktree(work: Path) -> bool:
    (work / "a.txt").write_text("x")
    for line in ("init -q", "add .", "-c user.name=a -c user.email=a@example.org commit -qm first"):
        subprocess.run(["git", *shlex.split(line)], cwd=work, check=True)
    where = json.loads(run(work, "-p hi --worktree side --output-format stream-json").done.stdout.splitlines()[0])[
        "cwd"
    ]
    return where != str(work) and "side" in where


def same_prompt(work: Path) -> bool:
    (work / "deep").mkdir()
    flag = "--exclude-dynamic-system-prompt-sections"
    one, two = (run(work, f"-C {folder} -p hi {flag}") for folder in (".", "deep"))
    kept = run(work, f"-p hi {flag} --system-prompt-snapshot on")
    told = [f"You work in {run.work / part}" in run.sent for run, part in ((one, ""), (two, "deep"))]
    return all(told) and one.system == two.system == kept.system and str(work) not in one.system


def safe(work: Path) -> bool:
    customize(work)
    added = ("Remember the milk", "Dusts shelves", "mcp__desk")
    before, found = run(work, "-p /sweep"), run(work, "-p /sweep --safe-mode")
    hooked = (work / "hooked").exists()
    (work / "hooked").unlink()
    again = run(work, "-p hi --safe-mode")
    return (
        hooked and not (work / "hooked").exists() and all(text in before.sent for text in added[:2])
        and not any(text in again.sent for text in added) and "Sweep the floor" not in found.sent
        # Model and permissions are those of the settings.
        and "haiku" in again.body["model"] and again.tools >= {"Bash", "Edit"}
    )  # fmt: skip


def restricted(work: Path) -> bool:
    (home_of(work) / ".claude").mkdir(parents=True)
    (home_of(work) / ".claude/settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash", "Read"]}}))
    found = run(work, "-p hi --restricted --allowedTools Read,Edit(.claude/settings.json)", OUTSIDE, Reply(
        calls=(Call("Write", {"file_path": ".claude/settings.json", "content": "{}"}),)))  # fmt: skip
    named = run(work, "-p hi --restricted --tools Bash,Read")
    refused = run(work, "-p hi --restricted --dangerously-skip-permissions")
    resumes = run(work, "-p hi --continue --restricted", Reply(text="Ok."))
    return (
        found.tools.isdisjoint({"Bash", "WebFetch"}) and found.tools >= {"Read", "Edit"} and named.tools >= {"Bash"}
        and "--restricted excludes" in found.results and not (work / ".claude").exists()
        and refused.done.returncode == 2 and "Bash" not in resumes.tools
    )  # fmt: skip


@contextmanager
def zip_server(folder: Path) -> Iterator[str]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(file, file.relative_to(folder))

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Location", "/tidy.zip")
            self.send_header("Content-Length", str(len(packed.getvalue()) if self.path != "/moved" else 0))
            self.end_headers()
            self.wfile.write(packed.getvalue() if self.path != "/moved" else b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def plugin_from_the_web(work: Path) -> bool:
    with zip_server(plugin_folder(work.parent)) as url:
        found = [run(work, f"-p '/tidy:sweep the floor' --plugin-url {url}/{name}") for name in ("tidy.zip", "moved")]
    wrong = run(work, "-p hi --plugin-url ftp://x/y.zip")
    return all("Sweep the floor" in each.sent for each in found) and wrong.done.returncode == 2


def plugin_from_a_folder(work: Path) -> bool:
    return "Sweep the floor" in run(work, f"-p '/tidy:sweep the floor' --plugin-dir {plugin_folder(work.parent)}").sent


def no_commands(work: Path) -> bool:
    customize(work)
    found = run(work, "-p /sweep --disable-slash-commands")
    return "Sweep the floor" not in found.sent and "Dusts shelves" not in found.sent and "milk" in found.sent


def by_settings(work: Path) -> bool:
    customize(work)
    return "milk" not in run(work, "-p hi --bare").sent


def only_given_servers(work: Path) -> bool:
    customize(work)
    line = f"-p hi --strict-mcp-config --mcp-config '{SERVERS.replace('desk', 'other')}' {STREAM}"
    return [s["name"] for s in run(work, line).lines[0]["mcp_servers"]] == ["other"]


def only_project(work: Path) -> bool:
    customize(work)
    return "milk" not in run(work, "-p hi --setting-sources project").sent


def subagent_text(flag: str) -> Callable[[Path], set[str]]:
    call = Call("Task", {"subagent_type": "general", "description": "look", "prompt": "look"})

    def test(work: Path) -> set[str]:
        found = run(work, f"-p go {STREAM} {flag}", Reply(calls=(call,)), Reply(text="From below."))
        return {
            part["text"]
            for line in found.lines
            if line["type"] == "assistant" and line["parent_tool_use_id"]
            for part in line["message"]["content"]
            if part["type"] == "text"
        }

    return test


def beside_an_editor(work: Path) -> bool:
    (work / "a.txt").write_text("one\ntwo\n")
    with StandIn(home_of(work), work) as editor:
        editor.select(work / "a.txt", "two\n", 1, 2)
        found = run(work, "-p hi --ide")
    return "two" in found.sent and "mcp__ide__getDiagnostics" in found.tools


EFFECTS: dict[str, Callable[[Path], object]] = {
    "--add-dir": plain(lambda r: "/usr/share" in r.system, "-p hi --add-dir /usr/share"),
    "--agent": plain(lambda r: "You are the critic." in r.system, f"-p hi --agent critic --agents '{AGENTS}'"),
    "--agents": plain(lambda r: "critic" in r.sent, f"-p hi --agents '{AGENTS}'"),
    "--allow-dangerously-skip-permissions": plain(
        lambda r: r.lines[0]["permissionMode"] == "plan",
        f"-p hi --allow-dangerously-skip-permissions --permission-mode plan {STREAM}",
    ),
    "--allowedTools": plain(lambda r: (r.work / "made").exists(), "-p hi --allowedTools 'Bash(touch:*)'", BASH),
    "--append-system-prompt": plain(lambda r: "Be kind." in r.system, "-p hi --append-system-prompt 'Be kind.'"),
    "--ax-screen-reader": plain(lambda r: "Ok." in r.done.stdout and "\x1b" not in r.done.stdout,
                                "--ax-screen-reader", stdin="hi\n"),
    "--bare": by_settings,
    "--betas": plain(lambda r: r.requests[0].headers["anthropic-beta"] == "a-2025-01-01", "-p hi --betas a-2025-01-01"),
    "--continue": resumed("--continue"),
    "--dangerously-skip-permissions": plain(lambda r: (r.work / "made").exists(),
                                            "-p hi --dangerously-skip-permissions", BASH),
    "--debug": plain(lambda r: "are written to" in r.done.stderr, "-p hi --debug api"),
    "--debug-file": plain(lambda r: (r.work / "log").exists(), "-p hi --debug-file log"),
    "--disable-slash-commands": no_commands,
    "--disallowedTools": plain(lambda r: "Bash" not in r.tools, "-p hi --disallowedTools Bash"),
    "--effort": plain(lambda r: "low" in r.sent, "-p hi --model claude-sonnet-5 --effort low"),
    "--exclude-dynamic-system-prompt-sections": same_prompt,
    "--fallback-model": plain(lambda r: "haiku" in r.requests[-1].body["model"],
                              "-p hi --fallback-model haiku", Reply(status=404, error="no such model")),
    "--fork-session": forked,
    "--forward-subagent-text": lambda work: subagent_text("--forward-subagent-text")(work) == {"From below."},
    "--help": plain(lambda r: "Usage" in r.done.stdout and not r.requests, "--help"),
    "--ide": beside_an_editor,
    "--include-hook-events": plain(
        lambda r: "hook_started" in {line.get("subtype") for line in r.lines},
        f"-p hi {STREAM} --include-hook-events --settings "
        + shlex.quote(json.dumps({"hooks": {"UserPromptSubmit": command_hook("true")}})),
    ),
    "--include-partial-messages": plain(lambda r: "stream_event" in r.types(),
                                        f"-p hi {STREAM} --include-partial-messages"),
    "--input-format": plain(lambda r: "from a host" in r.sent, f"-p --input-format stream-json {STREAM}",
                            stdin=message("from a host")),
    "--json-schema": plain(lambda r: r.lines[0]["structured_output"] == {"ok": True},
                           f"-p hi --output-format json --json-schema '{SCHEMA}'",
                           Reply(calls=(Call("StructuredOutput", {"ok": True}),))),
    "--max-budget-usd": plain(lambda r: (r.done.returncode, len(r.requests)) == (4, 1),
                              "-p hi --max-budget-usd 0.00000001 --allowedTools Bash", BASH),
    "--mcp-config": plain(lambda r: [s["name"] for s in r.lines[0]["mcp_servers"]] == ["desk"],
                          f"-p hi --mcp-config '{SERVERS}' {STREAM}"),
    "--model": plain(lambda r: "haiku" in r.body["model"], "-p hi --model haiku"),
    "--name": lambda work: (run(work, "-p first -n nightly"), "first" in run(work, "-p hi -r nightly").sent)[1],
    "--no-chrome": plain(lambda r: (r.done.stdout, r.done.stderr) == ("Ok.\n", ""), "-p hi --no-chrome"),
    "--no-session-persistence": not_saved,
    "--output-format": plain(lambda r: r.lines[0]["result"] == "Ok.", "-p hi --output-format json"),
    "--permission-mode": plain(lambda r: r.lines[0]["permissionMode"] == "acceptEdits",
                               f"-p hi --permission-mode acceptEdits {STREAM}"),
    "--permission-prompts": plain(lambda r: not (r.work / "made").exists(), "-p hi --permission-prompts none", BASH),
    "--plugin-dir": plugin_from_a_folder,
    "--plugin-url": plugin_from_the_web,
    "--print": plain(lambda r: r.done.stdout == "Ok.\n", "--print hi"),
    "--replay-user-messages": plain(lambda r: "user" in r.types(),
                                    f"-p --input-format stream-json {STREAM} --replay-user-messages",
                                    stdin=message("hi")),
    "--restricted": restricted,
    "--resume": resumed("--resume", UUID),
    "--safe-mode": safe,
    "--session-id": plain(lambda r: r.lines[0]["session_id"] == UUID,
                          f"-p hi --session-id {UUID} --output-format json"),
    "--setting-sources": only_project,
    "--settings": plain(lambda r: "haiku" in r.body["model"], """-p hi --settings '{"model": "haiku"}'"""),
    "--strict-mcp-config": only_given_servers,
    "--system-prompt": plain(lambda r: "You are terse." in r.system, "-p hi --system-prompt 'You are terse.'"),
    "--system-prompt-snapshot": same_prompt,
    "--tools": plain(lambda r: r.tools == {"Read"}, "-p hi --tools Read"),
    "--verbose": plain(lambda r: "Read" in r.done.stderr, "-p hi --verbose --allowedTools Read", OUTSIDE),
    "--version": plain(lambda r: r.done.stdout.startswith("agent ") and not r.requests, "--version"),
    "--worktree": in_worktree,
}  # fmt: skip
# What the others are answered with, in a line.
ANSWERS = {
    "--autocompact": "compact_at", "--bg": "agent serve", "--brief": "leave it out", "--chrome": "leave it out",
    "--cloud": "agent serve", "--desktop": "agent serve", "--environment": "agent serve", "--file": "@FILE",
    "--from-pr": "-r", "--prompt-suggestions": "leave it out",
    "--remote-control": "agent serve", "--remote-control-session-name-prefix": "leave it out",
    "--teleport": "agent serve", "--tmux": "--worktree",
}  # fmt: skip


@pytest.mark.parametrize("flag", EFFECTS)
def test_an_option_of_claude_code_has_its_effect(flag: str, work: Path) -> None:
    assert EFFECTS[flag](work)


def test_the_text_of_sub_agents_is_printed_only_when_it_is_wanted(work: Path) -> None:
    assert subagent_text("")(work) == set()


@pytest.mark.parametrize("flag", ANSWERS)
def test_an_option_without_a_counterpart_says_what_to_use(flag: str, work: Path) -> None:
    found = run(work, f"-p hi {flag}")
    assert (found.done.returncode, found.requests) == (2, [])
    assert ANSWERS[flag] in option_hint(flag) and ANSWERS[flag] in " ".join(found.done.stderr.split())


def test_an_option_that_limits_excludes_those_that_add(work: Path) -> None:
    for more in (f"--mcp-config '{SERVERS}'", "--plugin-dir x", f"--agents '{AGENTS}'"):
        found = run(work, f"-p hi --safe-mode {more}")
        assert (found.done.returncode, found.requests) == (2, []) and "--safe-mode excludes" in found.done.stderr


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("purge", "agent sessions rm"), ("purge ~/project", "agent sessions rm"), ("rm 7f3a", "agent sessions rm"),
        ("logs 7f3a", "agent show"), ("attach nightly", "agent -r"), ("stop 7f3a", "serve"), ("kill 7f3a", "serve"),
        ("respawn 7f3a", "agent -r"), ("auto-mode", "agent permissions"), ("auto-mode defaults", "agent permissions"),
        ("ultrareview", "agent review"), ("setup-token", "agent login"), ("plugins list", "agent plugin"),
    ],
)  # fmt: skip
def test_a_command_of_claude_code_never_starts_a_session(line: str, hint: str, work: Path) -> None:
    found = run(work, line)
    assert (found.done.returncode, found.requests) == (2, [])
    assert hint in command_hint(line.split(), ()) and line.split()[0] in FOREIGN_COMMANDS


def test_a_sentence_that_begins_with_such_a_command_is_a_prompt(work: Path) -> None:
    for line in ("stop the server", "kill all flaky tests", "logs are too long"):
        assert command_hint(line.split(), ()) == ""


@pytest.mark.parametrize("flag", ["--system-prompt", "--append-system-prompt"])
def test_a_continued_session_takes_a_prompt_that_is_given_and_else_has_its_own(work: Path, flag: str) -> None:
    begun = run(work, "-p hi")
    given = run(work, f"-p -c hi {flag} 'You are terse.'")
    kept = run(work, "-p -c hi")
    assert "You are terse." in given.system and "You are terse." not in begun.system
    assert kept.system == begun.system
