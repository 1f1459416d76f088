"""The lines of stream-json, field by field, as readers of Claude Code's format take them."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import Call, ModelServer, Reply
from tests.support.program import agent
from tests.support.scripts import call, script, task

STREAM = ("--output-format", "stream-json")
PARTIAL = (*STREAM, "--include-partial-messages")
USAGE = {
    "input_tokens": int, "output_tokens": int, "cache_creation_input_tokens": int, "cache_read_input_tokens": int,
    "cache_creation": dict, "server_tool_use": dict, "service_tier": str, "inference_geo": str, "iterations": list,
    "speed": str,
}  # fmt: skip
INIT = {
    "claude_code_version": str, "cwd": str, "tools": list, "mcp_servers": list, "model": str, "permissionMode": str,
    "slash_commands": list, "output_style": str, "skills": list, "agents": list, "plugins": list, "memory_paths": dict,
    "apiKeySource": str, "fast_mode_state": str,
}  # fmt: skip
MESSAGE = {"id": str, "type": str, "role": str, "model": str, "content": list, "usage": dict}
RESULT = {
    "subtype": str, "duration_ms": int, "duration_api_ms": int, "is_error": bool, "num_turns": int, "result": str,
    "session_id": str, "total_cost_usd": float, "usage": dict, "modelUsage": dict, "permission_denials": list,
    "errors": list, "terminal_reason": str, "uuid": str, "ttft_ms": int,
}  # fmt: skip
MODELS = {
    "openai": "openai/m", "responses": "openai/gpt-5.6", "anthropic": "anthropic/claude-x", "gemini": "gemini/gemini-x",
    "ollama": "ollama/qwen3:8b",
}  # fmt: skip


def lines_of(
    work: Path, replies: list[dict[str, Any]], *args: str, env: dict[str, str] | None = None, stdin: str = ""
) -> list[dict[str, Any]]:
    model = script(work.parent / "s.toml", replies)
    return [json.loads(line) for line in agent(["-p", "--model", model, *args], work, env, stdin).stdout.splitlines()]


def events_of(lines: list[dict[str, Any]], parent: str | None = None) -> list[dict[str, Any]]:
    return [x["event"] for x in lines if x["type"] == "stream_event" and x["parent_tool_use_id"] == parent]


def has(fields: dict[str, Any], wanted: dict[str, type]) -> bool:
    return {name: type(fields.get(name)) for name in wanted} == wanted


def assembled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that the events make, as a reader assembles them; fails where their order is wrong."""
    messages: list[dict[str, Any]] = []
    message: dict[str, Any] | None = None
    open_at: int | None = None
    raw = ""
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            assert message is None
            message = {**event["message"], "content": []}
            continue
        assert message is not None, event
        if kind == "content_block_start":
            assert open_at is None and event["index"] == len(message["content"])
            open_at, raw = event["index"], ""
            message["content"].append(dict(event["content_block"]))
        elif kind == "content_block_delta":
            assert event["index"] == open_at
            block, delta = message["content"][-1], event["delta"]
            if delta["type"] == "input_json_delta":
                raw += delta["partial_json"]
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        elif kind == "content_block_stop":
            assert event["index"] == open_at
            if message["content"][-1]["type"] == "tool_use":
                message["content"][-1]["input"] = json.loads(raw)
            open_at = None
        elif kind == "message_delta":
            assert open_at is None and has(event["usage"], USAGE)
            message |= {"stop_reason": event["delta"]["stop_reason"], "usage": event["usage"]}
        else:
            assert kind == "message_stop"
            messages.append(message)
            message = None
    assert message is None
    return messages


def whole_messages(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of the assistant lines, with all their blocks."""
    own = [x["message"] for x in lines if x["type"] == "assistant" and x["parent_tool_use_id"] is None]
    grouped = [list(group) for _, group in groupby(own, lambda message: message["id"])]
    return [{**group[-1], "content": [block for m in group for block in m["content"]]} for group in grouped]


def agrees(lines: list[dict[str, Any]]) -> bool:
    """Whether the events make the messages that the assistant lines show."""
    names = ("id", "model", "content", "stop_reason", "usage")
    made, shown = assembled(events_of(lines)), whole_messages(lines)
    return [[m[n] for n in names] for m in made] == [[m[n] for n in names] for m in shown]


def test_an_answer_as_it_is_written_makes_the_message(work: Path) -> None:
    calls = [call("Read", file_path="a.txt"), call("Glob", pattern="*")]
    replies = [
        {"thinking": "Hm.", "text": "I look.", "calls": calls, "usage": {"input": 9, "output": 4}},
        {"text": "A."},
    ]
    lines = lines_of(work, replies, *PARTIAL, "go")
    assert agrees(lines)
    first = assembled(events_of(lines))[0]
    assert [block["type"] for block in first["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert first["content"][0]["signature"] == "signature-1" and first["stop_reason"] == "tool_use"
    assert first["usage"]["input_tokens"] == 9
    assert all(has(x["message"]["usage"], USAGE) for x in lines if x["type"] == "assistant")


@pytest.mark.parametrize("protocol", MODELS)
def test_every_wire_makes_the_same_events(work: Path, protocol: str) -> None:
    two = (Call("Read", {"file_path": "a.txt"}), Call("Glob", {"pattern": "*.txt"}))
    with ModelServer(
        [Reply(text="I look now.", calls=two, split=5), Reply(text="It greets.", split=4, id="reply-2")]
    ) as server:
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"), "k")
        urls = {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
        urls |= {"GEMINI_API_BASE": server.gemini_url, "OLLAMA_HOST": server.ollama_url}
        done = agent(["-p", "--model", MODELS[protocol], *PARTIAL, "go"], work, {**keys, **urls})
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["result"] == "It greets.", done.stderr
    assert agrees(lines)
    pieces = [e["delta"] for e in events_of(lines) if e["type"] == "content_block_delta"]
    count = sum(piece["type"] == "input_json_delta" for piece in pieces)
    # Some send the arguments of a call as they are written; what arrives together is one piece.
    assert count >= 2 if protocol in ("openai", "responses", "anthropic") else count == 2


def test_an_answer_that_is_asked_for_again_ends_before_the_next_begins(work: Path) -> None:
    with ModelServer([Reply(text="Half of it", split=3, hang_up="middle"), Reply(text="All of it.")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_RETRIES": "1"}
        done = agent(["-p", "--model", "openai/m", *PARTIAL, "go"], work, env)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    made = assembled(events_of(lines))
    assert made[-1]["content"] == [{"type": "text", "text": "All of it."}] and len(made) == 2


def test_calls_that_were_written_as_text_are_announced_at_the_end(work: Path) -> None:
    text = '<tool_call>\n{"name": "Read", "arguments": {"file_path": "a.txt"}}\n</tool_call>'
    lines = lines_of(work, [{"text": text}, {"text": "Ok."}], *PARTIAL, "go")
    assert agrees(lines)
    assert [block["type"] for block in assembled(events_of(lines))[0]["content"]] == ["tool_use"]


def test_a_call_of_an_unknown_name_is_announced_as_what_it_means(work: Path) -> None:
    lines = lines_of(work, [{"calls": [call("read_file", path="a.txt")]}, {"text": "Ok."}], *PARTIAL, "go")
    assert agrees(lines)
    assert assembled(events_of(lines))[0]["content"][0]["name"] == "Read"


def test_results_of_calls_are_objects(work: Path) -> None:
    todo = {"content": "Look", "status": "completed", "activeForm": "Looking"}
    calls = [
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="world", new_string="you"),
        call("Write", file_path="b.txt", content="new\n"),
        call("Bash", command="echo hi"),
        call("TodoWrite", todos=[todo]),
        call("Glob", pattern="*.txt"),
        call("Grep", pattern="hello", output_mode="content"),
        call("Read", file_path="gone"),
    ]
    args = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash", *STREAM, "--", "go")
    lines = lines_of(work, [{"calls": [one]} for one in calls] + [{"text": "Ok."}], *args)
    read, edit, write, ran, plan, names, found, gone = (x["tool_use_result"] for x in lines if x["type"] == "user")
    path = str(work / "a.txt")
    file = {"filePath": path, "content": "hello world\n", "numLines": 2, "startLine": 1, "totalLines": 2}
    assert read == {"type": "text", "file": file}
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-hello world", "+hello you"]}
    assert edit == {
        "filePath": path, "oldString": "world", "newString": "you", "originalFile": "hello world\n",
        "structuredPatch": [hunk], "userModified": False, "replaceAll": False,
    }  # fmt: skip
    assert (write["type"], write["content"], write["originalFile"]) == ("create", "new\n", None)
    assert (ran["stdout"], ran["stderr"], ran["interrupted"]) == ("hi", "", False)
    assert plan == {"oldTodos": [], "newTodos": [todo]}
    assert (sorted(names["filenames"]), names["numFiles"], names["truncated"]) == (["a.txt", "b.txt"], 2, False)
    assert (found["mode"], found["numLines"]) == ("content", 1) and "hello you" in found["content"]
    assert gone.startswith("Error: ")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", x["timestamp"]) for x in lines if x["type"] == "user")


@pytest.mark.parametrize("background", [False, True, "true"])
def test_a_sub_agent_for_the_background_may_be_asked_for_by_the_name_of_others(work: Path, background: Any) -> None:
    asked = {**task("explore"), "name": "Agent"}
    asked["arguments"] = {**asked["arguments"], "run_in_background": background}
    lines = lines_of(work, [{"calls": [asked]}, {"text": "found"}, {"text": "done"}], *STREAM, "go")
    mine = [x["message"]["content"] for x in lines if x["type"] == "user" and not x["parent_tool_use_id"]]
    [result] = mine[0]
    assert not result.get("is_error")
    assert ("Started in the background" if background else "found") in str(result["content"])


READS = [
    ("one\ntwo\n", {}, "one\ntwo\n", 3, 3), ("one\ntwo", {}, "one\ntwo", 2, 2), ("", {}, "", 1, 1),
    ("one\ntwo\n", {"limit": 1}, "one", 1, 3), ("one\ntwo\n", {"limit": 2}, "one\ntwo", 2, 3),
    ("one\ntwo\n", {"offset": 2}, "two\n", 2, 3), ("one\r\ntwo\r\n", {}, "one\ntwo\n", 3, 3),
]  # fmt: skip


@pytest.mark.parametrize(("text", "part", "content", "lines", "total"), READS)
def test_what_was_read_has_its_last_line_break(
    work: Path, text: str, part: dict[str, int], content: str, lines: int, total: int
) -> None:
    """Contents and counts as Claude Code 2.1 writes them: a file is what its line breaks divide."""
    (work / "b.txt").write_bytes(text.encode())
    replies = [{"calls": [call("Read", file_path="b.txt", **part)]}, {"text": "Ok."}]
    [read] = [x["tool_use_result"] for x in lines_of(work, replies, *STREAM, "go") if x["type"] == "user"]
    file = {"filePath": str(work / "b.txt"), "content": content, "numLines": lines, "totalLines": total}
    assert read["file"] == {**file, "startLine": part.get("offset", 1)}


def test_the_first_line_and_the_result(work: Path) -> None:
    lines = lines_of(
        work, [{"text": "Ok.", "usage": {"input": 9, "cache_write": 5, "cache_write_1h": 3}}], *STREAM, "go"
    )
    first, last = lines[0], lines[-1]
    assert (first["type"], first["subtype"]) == ("system", "init") and has(first, INIT)
    assert has(last, RESULT) and has(last["usage"], USAGE)
    created = {"ephemeral_1h_input_tokens": 3, "ephemeral_5m_input_tokens": 2}
    assert last["usage"]["cache_creation"] == created
    assert last["usage"]["server_tool_use"] == {"web_search_requests": 0, "web_fetch_requests": 0}
    [used] = last["modelUsage"].values()
    assert has(used, {"contextWindow": int, "maxOutputTokens": int, "inputTokens": int})


def test_the_first_line_names_the_files_of_memory(work: Path, home: Path) -> None:
    def paths(*args: str) -> Any:
        return lines_of(work, [{"text": "Ok."}], *STREAM, *args, "--", "go")[0]["memory_paths"]

    own = str(home / ".agent/AGENTS.md")
    assert paths() == {"user": own, "project": str(work / "AGENTS.md")}
    (work / "CLAUDE.md").write_text("Be brief.\n")
    assert paths() == {"user": own, "project": str(work / "CLAUDE.md")}
    assert paths("--setting-sources", "user") == {"user": own}
    assert paths("--bare") == {}


def test_the_model_that_fails_ends_as_an_api_error(work: Path) -> None:
    with ModelServer([Reply(status=429, error="too many")]) as server:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url, "AGENT_RETRIES": "0"}
        done = agent(["-p", "--model", "openai/m", *STREAM, "go"], work, env)
    *_, found, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 75
    assert (last["subtype"], last["is_error"], last["api_error_status"]) == ("success", True, 429)
    assert (last["terminal_reason"], last["end_reason"]) == ("api_error", "inference_error")
    assert (found["type"], found["error"], found["message"]["model"]) == ("assistant", "rate_limit", "<synthetic>")
    assert has(found["message"], MESSAGE) and found["message"]["content"] == [{"type": "text", "text": last["result"]}]


def test_a_limit_of_turns_is_named_among_the_errors(work: Path) -> None:
    replies = [{"calls": [call("Read", file_path="a.txt")]}] * 2 + [{"text": "So far."}]
    last = lines_of(work, replies, *STREAM, "--max-turns", "2", "go")[-1]
    assert (last["subtype"], last["terminal_reason"], last["is_error"]) == ("error_max_turns", "max_turns", True)
    assert last["errors"] == ["Reached maximum number of turns (2)"]


def test_a_refused_call_is_reported_before_its_result(work: Path) -> None:
    lines = lines_of(work, [{"calls": [call("Bash", command="make")]}, {"text": "Ok."}], *STREAM, "go")
    at = [x.get("subtype") for x in lines].index("permission_denied")
    denied, result = lines[at : at + 2]
    assert (denied["tool_name"], denied["tool_use_id"]) == ("Bash", "call-1-1")
    assert denied["message"] == result["message"]["content"][0]["content"] and denied["decision_reason"]


def test_a_sub_agent_is_a_task_with_an_end_and_its_words_are_left_out(work: Path) -> None:
    # The sub-agent is given the same replies; it has no tool Task.
    replies = [{"calls": [task("explore")]}, {"text": "I look.", "calls": [call("Read", file_path="a.txt")]}]
    lines = lines_of(work, [*replies, {"text": "It greets."}], *PARTIAL, "go")
    about = [x for x in lines if x.get("subtype", "").startswith("task_")]
    assert [x["subtype"] for x in about] == ["task_started", "task_progress", "task_progress", "task_notification"]
    started, _, progress, ended = about
    assert {x["task_id"] for x in about} == {x["tool_use_id"] for x in about} == {"call-1-1"}
    assert (started["task_type"], started["subagent_type"], started["prompt"]) == ("local_agent", "explore", "find it")
    assert progress["last_tool_name"] == "Read" and progress["usage"]["tool_uses"] == 2
    assert (ended["status"], ended["output_file"]) == ("completed", "") and ended["summary"] == "It greets."
    inner_lines = [x for x in lines if x.get("parent_tool_use_id") == "call-1-1"]
    blocks = [block["type"] for x in inner_lines if "message" in x for block in x["message"]["content"]]
    assert blocks == ["tool_use", "tool_result"] * 2 and not events_of(lines, "call-1-1")
    assert {x["agent_id"] for x in inner_lines if "message" in x} == {"call-1-1"}
    report = next(x for x in lines if x["type"] == "user" and x["parent_tool_use_id"] is None)["tool_use_result"]
    assert (report["status"], report["agentId"], report["totalToolUseCount"]) == ("completed", "call-1-1", 2)


def test_a_command_in_the_background_is_a_task_that_ends_with_the_run(work: Path) -> None:
    replies = [{"calls": [call("Bash", command="sleep 100", run_in_background=True)]}, {"text": "Ok."}]
    lines = lines_of(work, replies, "--allowedTools", "Bash", *STREAM, "--", "go")
    tasks = [x for x in lines if x.get("subtype", "").startswith(("task_", "background_"))]
    live, started, updated, ended, none = tasks
    assert [t["task_id"] for t in live["tasks"]] == [started["task_id"]] and none["tasks"] == []
    assert (updated["task_id"], updated["patch"]["status"]) == (started["task_id"], "killed")
    assert (started["subtype"], started["task_type"], started["description"]) == (
        "task_started",
        "local_bash",
        "sleep 100",
    )
    assert (ended["subtype"], ended["task_id"], ended["status"]) == ("task_notification", started["task_id"], "stopped")
    result = next(x for x in lines if x["type"] == "user")["tool_use_result"]
    assert result["backgroundTaskId"] == started["task_id"] and lines[-1]["type"] == "result"


def test_json_and_verbose_print_all_messages_as_one_array(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Ok."}])
    done = agent(["-p", "--model", model, "--output-format", "json", "--verbose", "go"], work)
    array = json.loads(done.stdout)
    assert [x["type"] for x in array] == ["system", "assistant", "result"] and array[-1]["result"] == "Ok."


def test_a_session_says_when_it_runs_and_when_it_is_idle(work: Path) -> None:
    env = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
    lines = lines_of(work, [{"text": "Ok."}], *STREAM, "go", env=env)
    assert [x["state"] for x in lines if x.get("subtype") == "session_state_changed"] == ["running", "idle"]
    assert lines[-1]["state"] == "idle"


def test_what_came_with_a_message_is_in_its_result_and_costs_add_up(work: Path) -> None:
    origin = {"kind": "human"}
    messages = [
        {"type": "user", "message": {"role": "user", "content": text}, **more}
        for text, more in (("one", {"origin": origin, "uuid": "u-1"}), ("two", {}))
    ]
    replies = [{"text": t, "usage": {"input": 5, "output": 1, "cost": 0.25}} for t in ("One.", "Two.")]
    stdin = "\n".join(map(json.dumps, messages))
    lines = lines_of(work, replies, *STREAM, "--input-format", "stream-json", stdin=stdin)
    first, second = (x for x in lines if x["type"] == "result")
    assert (first["origin"], first["user_message_uuid"]) == (origin, "u-1") and "origin" not in second
    assert (first["usage"]["input_tokens"], second["usage"]["input_tokens"]) == (5, 5)
    assert [used["inputTokens"] for used in second["modelUsage"].values()] == [10]
    assert second["total_cost_usd"] == 2 * first["total_cost_usd"] > 0
