"""The options, callbacks and methods of the Agent SDK for Python on this program: python sdk_options.py CASE.

Prints one line of JSON with what was seen.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    InMemorySessionStore,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    SystemMessage,
    create_sdk_mcp_server,
    get_session_messages,
    query,
    tool,
)


def options(**more: Any) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(cli_path=os.environ["AGENT_BIN"], **more)


async def say(text: str, given: ClaudeAgentOptions) -> tuple[dict[str, Any], ResultMessage]:
    """Run one turn; return the data of its init line and its result."""
    seen = []
    async with ClaudeSDKClient(given) as client:
        await client.query(text)
        async for message in client.receive_response():
            seen.append(message)
    init = next(m.data for m in seen if isinstance(m, SystemMessage) and m.subtype == "init")
    return init, next(m for m in seen if isinstance(m, ResultMessage))


async def every_option() -> dict[str, Any]:
    """All options that are flags, at once: a flag that is not read would end the run."""
    folder = Path("more")
    folder.mkdir()
    lines: list[str] = []
    init, result = await say("Reply with exactly: pong", options(
        tools=["Bash", "Read", "Agent"], allowed_tools=["Bash(echo:*)"], disallowed_tools=["WebFetch"],
        system_prompt={"type": "preset", "preset": "claude_code", "append": "Be brief."},
        mcp_servers={"own": create_sdk_mcp_server("own", tools=[])}, strict_mcp_config=True,
        permission_mode="acceptEdits", max_turns=3, max_budget_usd=1.0, model="sonnet", fallback_model="haiku",
        betas=["context-1m-2025-08-07"], cwd=Path.cwd(), settings=json.dumps({"env": {"A": "b"}}), add_dirs=[folder],
        env={"GREETING": "hi"}, extra_args={"debug-to-stderr": None}, max_buffer_size=1 << 20, stderr=lines.append,
        include_partial_messages=True, include_hook_events=True, forward_subagent_text=True,
        agents={"greeter": AgentDefinition(description="Greets.", prompt="Say hi.", tools=["Read"])},
        setting_sources=["user"], skills=["none"], sandbox={"enabled": False}, plugins=[],
        thinking={"type": "enabled", "budget_tokens": 2000}, effort="low", enable_file_checkpointing=True,
        task_budget={"total": 100_000}, user=None, session_id="6f1c1b4e-5f0e-4f51-9f0c-9d3c1f1d2e3a",
    ))  # fmt: skip
    return {
        "result": result.result, "session": result.session_id, "mode": init["permissionMode"],
        "tools": sorted(t for t in init["tools"] if t in ("Bash", "Read", "Write")), "stderr": bool(lines),
        "agent": "greeter" in init["agents"],
    }  # fmt: skip


async def sessions() -> dict[str, Any]:
    _, first = await say("Reply with exactly: one", options())
    _, more = await say("Reply with exactly: two", options(continue_conversation=True))
    _, resumed = await say("Reply with exactly: three", options(resume=first.session_id))
    _, forked = await say("Reply with exactly: four", options(resume=first.session_id, fork_session=True))
    return {"same": first.session_id == more.session_id == resumed.session_id,
            "forked": forked.session_id != first.session_id, "result": forked.result}  # fmt: skip


async def callbacks() -> dict[str, Any]:
    """can_use_tool with a yes, changed input and a no; hooks; a server in this process."""
    seen: dict[str, Any] = {"asked": [], "hooks": [], "called": []}

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        seen["asked"].append([name, bool(context.tool_use_id)])
        if "secret" in given.get("command", ""):
            return PermissionResultDeny(message="No.")
        return PermissionResultAllow(updated_input={**given, "command": "touch changed.txt"})

    async def hook(given: dict[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen["hooks"].append(given["hook_event_name"])
        return {}

    @tool("echo", "Echo", {"text": str})
    async def echo(given: dict[str, Any]) -> dict[str, Any]:
        seen["called"].append(given["text"])
        return {"content": [{"type": "text", "text": given["text"]}]}

    events = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
    given = options(can_use_tool=decide, hooks={e: [HookMatcher(hooks=[hook])] for e in events},
                    mcp_servers={"mine": create_sdk_mcp_server("mine", tools=[echo])},
                    allowed_tools=["mcp__mine__echo"])  # fmt: skip
    async with ClaudeSDKClient(given) as client:
        for text in ("Run the command: touch made.txt", "Run the command: touch secret.txt",
                     "Call mcp__mine__echo with text='hello'"):  # fmt: skip
            await client.query(text)
            async for _ in client.receive_response():
                pass
    seen["files"] = sorted(p.name for p in Path.cwd().glob("*.txt"))
    seen["hooks"] = sorted(set(seen["hooks"]))
    return seen


async def methods() -> dict[str, Any]:
    """Every method of the client."""
    out: dict[str, Any] = {}
    server = create_sdk_mcp_server("mine", tools=[])
    async with ClaudeSDKClient(options(mcp_servers={"mine": server}, enable_file_checkpointing=True,
                                       permission_mode="acceptEdits",
                                       extra_args={"replay-user-messages": None})) as client:  # fmt: skip
        out["info"] = "commands" in (await client.get_server_info() or {})
        await client.set_permission_mode("default")
        await client.set_model("haiku")
        await client.set_model(None)
        await client.query("Reply with exactly: pong")
        async for message in client.receive_response():
            if getattr(message, "uuid", None) and type(message).__name__ == "UserMessage":
                await client.rewind_files(message.uuid)
                out["rewound"] = True
        out["usage"] = (await client.get_context_usage())["totalTokens"] > 0
        out["servers"] = [s["name"] for s in (await client.get_mcp_status())["mcpServers"]]
        await client.toggle_mcp_server("mine", False)
        await client.toggle_mcp_server("mine", True)
        await client.reconnect_mcp_server("mine")
        try:
            await client.stop_task("none")
        except Exception as error:
            out["no_task"] = "none" in str(error)
        await client.interrupt()
    return out


async def more_options() -> dict[str, Any]:
    """What "every_option" does not show: composed prompts, a place to resume at, a tool that decides, a store."""
    Path(".claude/commands").mkdir(parents=True)
    Path(".claude/commands/greet.md").write_text("Reply with exactly: greeted")
    base: dict[str, Any] = {"setting_sources": ["user", "project"], "client_app": "test/1", "debug_stderr": sys.stderr}
    _, expanded = await say("/greet", options(**base))
    _, composed = await say("/greet", options(**base, verbatim_prompts=True))
    store = InMemorySessionStore()
    kept: dict[str, Any] = {"session_store": store, "session_store_flush": "eager", "load_timeout_ms": 5000}
    _, first = await say("Reply with exactly: one", options(**kept))
    _, second = await say("Reply with exactly: two", options(**kept, resume=first.session_id))
    mirrored: dict[str, Any] = {"extra_args": {"session-mirror": None}}
    _, third = await say("Reply with exactly: three", options(**mirrored))
    await say("Reply with exactly: four", options(**mirrored, resume=third.session_id))
    entries = list(get_session_messages(third.session_id, directory=str(Path.cwd())))
    answers = [m.uuid for m in entries if m.type == "assistant"]
    asked = [m.uuid for m in entries if m.type == "user"]
    _, cut = await say("Reply with exactly: five", options(
        resume=third.session_id, resume_session_at=answers[0], resume_drops_turn=asked[1]))  # fmt: skip

    @tool("decide", "Decides", {"tool_name": str, "input": dict, "tool_use_id": str})
    async def decide(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": json.dumps({"behavior": "deny", "message": "No."})}]}

    server = create_sdk_mcp_server("judge", tools=[decide])
    _, denied = await say("Run the command: touch denied.txt", options(
        mcp_servers={"judge": server}, permission_prompt_tool_name="mcp__judge__decide"))  # fmt: skip
    return {"expanded": expanded.result, "composed": composed.result != "greeted", "stored": second.result,
            "same": second.session_id == first.session_id, "cut": cut.result,
            "denied": [d["tool_name"] for d in denied.permission_denials or ()]}  # fmt: skip


async def output() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"word_count": {"type": "number"}}, "required": ["word_count"]}
    given = options(output_format={"type": "json_schema", "schema": schema})
    async for message in query(prompt="Count the words of 'Hello world'.", options=given):
        if isinstance(message, ResultMessage):
            return {"output": message.structured_output}
    return {}


async def prompts() -> dict[str, Any]:
    """The kinds of system prompt, of thinking and of settings."""
    Path("prompt.md").write_text("You are a parrot.")
    Path("settings.json").write_text("{}")
    kinds: list[dict[str, Any]] = [
        {"system_prompt": "You are a parrot."}, {"system_prompt": {"type": "file", "path": "prompt.md"}},
        {"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}}, {"max_thinking_tokens": 2000},
        {"tools": {"type": "preset", "preset": "claude_code"}}, {"tools": []}, {"settings": "settings.json"},
        {"mcp_servers": json.dumps({"mcpServers": {}})}, {"skills": "all"}, {"setting_sources": []},
    ]  # fmt: skip
    return {"results": [(await say("Reply with exactly: pong", options(**kind)))[1].result for kind in kinds]}


CASES = {f.__name__: f for f in (every_option, more_options, sessions, callbacks, methods, output, prompts)}
print(json.dumps(asyncio.run(CASES[sys.argv[1]]())))
