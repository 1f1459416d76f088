"""The readers and writers of transcripts in the Agent SDK, on sessions of ours; run by `make outside`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.claude_transcripts import entries_of, transcript
from tests.support.client_home import CLIENTS
from tests.support.program import agent
from tests.support.scripts import bash, script, task

# `make outside` has the SDK in an environment of its own; what is installed here too comes from here.
sys.path += map(str, CLIENTS.glob("py/lib/python*/site-packages"))
sdk = pytest.importorskip("claude_agent_sdk")


@pytest.fixture
def session(work: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session of two turns with a call and a sub-agent; its frames are in `frames.jsonl`."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    replies = [{"calls": [task("explore", "Find x.")]}, {"text": "It is x."}, bash("echo hi"), {"text": "Two."}]
    name = ""
    for words, known in (("one?", replies), ("two?", replies)):
        model = script(work.parent / "s.toml", known)
        args = ["-p", "--model", model, "--allowedTools", "Bash", "--output-format", "stream-json", "--session-mirror"]
        done = agent([*args, *(["--resume", name] if name else []), words], work)
        assert done.returncode == 0, done.stderr
        with (work / "frames.jsonl").open("a") as file:
            file.write(done.stdout)
        name = json.loads(done.stdout.splitlines()[-1])["session_id"]
    return name


def prompts(found: list[Any]) -> list[str]:
    return [m.message["content"] for m in found if m.type == "user" and isinstance(m.message["content"], str)]


def test_the_sdk_lists_and_reads_sessions_and_sub_agents(work: Path, session: str) -> None:
    [info] = sdk.list_sessions(str(work))
    assert (info.session_id, info.first_prompt, info.cwd) == (session, "one?", str(work))
    assert sdk.get_session_info(session, str(work)) == info
    found = sdk.get_session_messages(session, str(work))
    assert prompts(found) == ["one?", "two?"]
    own = entries_of(transcript(work.parent / "home", session))
    assert [m.uuid for m in found] == [e["uuid"] for e in own]
    agents = sdk.list_subagents(session, str(work))
    calls = {b["id"] for m in found for b in m.message["content"] if isinstance(b, dict) and b.get("name") == "Task"}
    assert len(agents) == len(calls) > 0
    for name in agents:
        nested = sdk.get_subagent_messages(session, name, str(work))
        assert prompts(nested) == ["Find x."]
        assert {m.parent_tool_use_id for m in nested} <= calls and {m.parent_agent_id for m in nested} == {None}


def test_what_the_sdk_changes_is_kept_when_the_session_is_continued(work: Path, home: Path, session: str) -> None:
    sdk.rename_session(session, "Mine", str(work))
    sdk.tag_session(session, "red", str(work))
    model = script(work.parent / "s.toml", [{"text": "Three."}] * 9)
    done = agent(["-p", "--model", model, "--session-mirror", "--resume", session, "three?"], work)
    assert done.returncode == 0, done.stderr
    info = sdk.get_session_info(session, str(work))
    assert (info.custom_title, info.tag) == ("Mine", "red")
    assert prompts(sdk.get_session_messages(session, str(work))) == ["one?", "two?", "three?"]
    sdk.delete_session(session, str(work))
    assert sdk.list_sessions(str(work)) == []


def test_a_fork_that_the_sdk_made_is_continued(work: Path, session: str) -> None:
    first = sdk.get_session_messages(session, str(work))
    cut = next(m.uuid for m in first if prompts([m]) == ["two?"])
    before = first[[m.uuid for m in first].index(cut) - 1].uuid
    fork = sdk.fork_session(session, str(work), up_to_message_id=before).session_id
    model = script(work.parent / "s.toml", [{"text": "Forked."}] * 9)
    done = agent(["-p", "--model", model, "--session-mirror", "--resume", fork, "other?"], work)
    assert done.returncode == 0 and "Forked." in done.stdout, done.stderr
    assert prompts(sdk.get_session_messages(fork, str(work))) == ["one?", "other?"]
    assert prompts(sdk.get_session_messages(session, str(work))) == ["one?", "two?"]


def test_a_store_filled_by_the_mirror_reads_as_the_files_do(work: Path, home: Path, session: str) -> None:
    from claude_agent_sdk._internal.session_store import file_path_to_session_key

    store = sdk.InMemorySessionStore()

    async def fill() -> tuple[list[Any], list[str], list[Any]]:
        for line in (work / "frames.jsonl").read_text().splitlines():
            frame = json.loads(line)
            if frame["type"] == "transcript_mirror":
                key = file_path_to_session_key(frame["filePath"], str(home / ".claude/projects"))
                assert key is not None
                await store.append(key, frame["entries"])
        found = await sdk.get_session_messages_from_store(store, session, str(work))
        agents = await sdk.list_subagents_from_store(store, session, str(work))
        nested = [await sdk.get_subagent_messages_from_store(store, session, name, str(work)) for name in agents]
        return found, agents, nested

    found, agents, nested = asyncio.run(fill())
    assert found == sdk.get_session_messages(session, str(work))
    assert sorted(agents) == sorted(sdk.list_subagents(session, str(work)))
    assert nested == [sdk.get_subagent_messages(session, name, str(work)) for name in agents]
