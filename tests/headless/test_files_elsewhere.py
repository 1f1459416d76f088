"""Files outside the workspace that a message, a command or a skill mentions as `@~/file`, and what ~/.claude holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.policy.secret_places import in_secret_place
from tests.support.editor_client import connected
from tests.support.extension_files import home_of, put, skill
from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.pty_screen import Drawn
from tests.support.scripts import script
from tests.support.served import served, write_script

NOTES = "The notes of the user."


def sent(work: Path, *args: str, replies: tuple[Reply, ...] = ()) -> str:
    """What the model was sent by a run with these arguments."""
    with ModelServer([*replies, Reply(text="Ok.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
        done = agent(["-p", "--model", "openai/gpt-test", *args], work, env)
    assert done.returncode in (0, 5), done.stderr  # 5: every call was denied
    return json.dumps(server.requests[-1].body["messages"])


def test_a_command_of_the_user_sends_the_file_that_it_names(work: Path) -> None:
    put(home_of(work), ".claude/kit/help.md", NOTES)
    put(home_of(work), ".claude/commands/help-me.md", "Do as @~/.claude/kit/help.md and @~/.ssh/id_rsa say: $ARGUMENTS")
    put(home_of(work), ".ssh/id_rsa", "s3cret")
    put(home_of(work), "other.txt", "Other notes.")
    found = sent(work, "/help-me with @~/other.txt")
    assert NOTES in found and "s3cret" not in found
    # The arguments may be somebody else's.
    assert "Other notes." not in found


def test_a_skill_of_the_user_sends_it_when_the_model_uses_the_skill(work: Path) -> None:
    put(home_of(work), ".claude/kit/help.md", NOTES)
    put(home_of(work), "other.txt", "Other notes.")
    skill(home_of(work), "kit", "Do as @~/.claude/kit/help.md says.")
    use = Reply(calls=(Call("Skill", {"skill": "kit", "args": "@~/other.txt"}),))
    found = sent(work, "go", replies=(use,))
    assert NOTES in found and "Other notes." not in found


def test_a_command_of_a_project_sends_nothing_of_the_home_folder(work: Path) -> None:
    put(home_of(work), "notes.txt", NOTES)
    put(work, ".claude/commands/take.md", "Do as @~/notes.txt says.")
    assert NOTES not in sent(work, "--setting-sources", "user,project", "/take")


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ((), False), (("--allowedTools", "Read(~/notes.txt)"), True), (("--allowedTools", "Read(~/**)"), True),
        (("--permission-mode", "acceptEdits"), False), (("--disallowedTools", "Read(~/notes.txt)"), False),
    ],
)  # fmt: skip
def test_a_prompt_on_the_command_line_sends_it_under_a_rule_only(
    work: Path, more: tuple[str, ...], wanted: bool
) -> None:
    put(home_of(work), "notes.txt", NOTES)
    assert (NOTES in sent(work, "read @~/notes.txt", *more)) is wanted


def test_a_rule_for_everything_does_not_send_a_secret(work: Path) -> None:
    put(home_of(work), ".ssh/id_rsa", "s3cret")
    put(home_of(work), ".claude/projects/x/s.jsonl", "s3cret")
    for mention in ("@~/.ssh/id_rsa", "@~/.claude/projects/x/s.jsonl"):
        assert "s3cret" not in sent(work, f"read {mention}", "--allowedTools", "Read")


def over_acp(work: Path, prompt: str) -> None:
    async def story() -> None:
        async with connected(work, [{"text": "Ok."}]) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert (await here.prompt(opened.session_id, prompt)).stop_reason == "end_turn"
            assert here.editor.asked == []

    asyncio.run(story())


def over_http(work: Path, prompt: str) -> None:
    with served(work) as server:
        server.until(server.begin(prompt, write_script(work, {"text": "Ok."})), "done")


@pytest.mark.parametrize("send", [over_acp, over_http])
@pytest.mark.parametrize("rule", ["", "Read(~/notes.txt)", "Read"])
def test_another_program_sends_it_under_a_rule_only_and_never_a_secret(
    work: Path, send: Callable[[Path, str], None], rule: str
) -> None:
    put(home_of(work), "notes.txt", NOTES)
    put(home_of(work), ".ssh/id_rsa", "s3cret")
    put(home_of(work), ".claude/settings.json", json.dumps({"permissions": {"allow": [rule] if rule else []}}))
    send(work, "read @~/notes.txt and @~/.ssh/id_rsa")
    logs = [file.read_text() for file in home_of(work).rglob("sessions/*/*.jsonl")]
    assert any("read @~/notes.txt" in log for log in logs)
    assert any(NOTES in log for log in logs) is (rule != "")
    assert not any("s3cret" in log for log in logs)


def test_what_a_user_types_in_a_session_is_sent_unless_it_is_a_secret(work: Path) -> None:
    put(home_of(work), "notes.txt", NOTES)
    put(home_of(work), "more.txt", "More notes.")
    put(home_of(work), ".netrc", "s3cret")
    put(work, ".claude/commands/take.md", "Take it.")
    replies = [{"text": "Read.", "expect": NOTES}, {"text": "Taken.", "expect": "More notes."}]
    with Drawn(["--model", script(work.parent / "s.toml", replies), "--trust"], work, columns=100) as screen:
        screen.ready()
        screen.line("see @~/notes.txt and @~/.netrc")
        screen.wait("@~/.netrc is not a file that can be attached")
        screen.wait("Read.")
        screen.gone("interrupt")
        screen.line("/take @~/more.txt")
        screen.wait("Taken.")
        screen.gone("interrupt")
        screen.leave()
    assert all("s3cret" not in file.read_text() for file in home_of(work).rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("CLAUDE.md", False), ("commands/gsd/help.md", False), ("agents/x.md", False), ("skills/x/SKILL.md", False),
        ("hooks/x.js", False), ("plugins/cache/x/y.md", False), ("output-styles/x.md", False),
        ("get-shit-done/workflows/help.md", False), (".credentials.json", True), ("settings.json", True),
        ("history.jsonl", True), ("projects/x/s.jsonl", True), ("todos/x.json", True), ("shell-snapshots/x.sh", True),
        ("file-history/x", True), (".hidden/x", True), ("", True),
    ],
)  # fmt: skip
def test_what_is_secret_in_the_folder_of_claude_code(tmp_path: Path, name: str, secret: bool) -> None:
    path = put(tmp_path, f".claude/{name}", "x") if name else tmp_path / ".claude"
    assert in_secret_place(path, tmp_path) is secret


def test_the_files_of_a_toolkit_are_read_under_a_rule_and_by_commands(work: Path) -> None:
    put(home_of(work), ".claude/kit/help.md", NOTES)
    put(home_of(work), ".claude/.credentials.json", "s3cret")
    for name, wanted in (("kit/help.md", NOTES), (".credentials.json", "looks like it holds secrets")):
        read = Reply(calls=(Call("Read", {"file_path": str(home_of(work) / ".claude" / name)}),))
        assert wanted in sent(work, "go", "--allowedTools", "Read", replies=(read,))
    for command, shown in (("cat ~/.claude/kit/help.md", True), ("cat ~/.claude/kit/../.cred*", False)):
        with ModelServer([Reply(calls=(Call("Bash", {"command": command}),)), Reply(text="Ok.")]) as server:
            env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_SANDBOX_MODE": "auto"}
            agent(["-p", "--model", "openai/gpt-test", "--allowedTools", "Bash", "go"], work, env)
        told = json.dumps(server.requests[-1].body["messages"])
        assert (NOTES in told) is shown and "s3cret" not in told
