"""Whole turns of `agent acp` with the official client as the editor and the scripted model."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.schema import (
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    EmbeddedResourceContentBlock,
    EnvVariable,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    TextResourceContents,
)

from agent_cli.models.credentials import KeyStore, Secret
from tests.support.editor_client import FakeEditor, connected
from tests.support.fork_server import ROOT, mcp_command
from tests.support.scripts import call

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def edit(old: str, new: str) -> dict[str, Any]:
    return call("Edit", file_path="a.txt", old_string=old, new_string=new)


READ = {"calls": [call("Read", file_path="a.txt")]}
TODO = {"content": "change it", "status": "in_progress", "activeForm": "changing it"}


def test_a_turn_with_text_thoughts_calls_a_diff_and_a_plan(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    replies = [
        {"thinking": "where is it", "text": "I look.", **READ},
        {"calls": [call("TodoWrite", todos=[TODO]), edit("two", "three"), call("Bash", command="echo out; touch b")],
         "usage": {"input": 900, "output": 40}},
        {"text": "Done."},
    ]  # fmt: skip

    async def story() -> FakeEditor:
        async with connected(work, replies) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            answer = await here.prompt(opened.session_id, "change it")
            assert answer.stop_reason == "end_turn"
            assert answer.usage.input_tokens == 900
            assert here.offers.agent_capabilities.load_session
            return here.editor

    editor = asyncio.run(story())
    assert (work / "a.txt").read_text() == "one\nthree\n"
    assert editor.text() == "I look.Done."
    assert editor.text("agent_thought_chunk") == "where is it"
    read, changed, ran = (editor.last_call(f"call-{n}") for n in ("1-1", "2-2", "2-3"))
    assert (read["kind"], read["status"], read["locations"]) == (
        "read", "completed", [{"path": str(work / "a.txt"), "line": 1}],
    )  # fmt: skip
    assert changed["kind"] == "edit"
    assert changed["content"] == [
        {"type": "diff", "path": str(work / "a.txt"), "oldText": "one\ntwo\n", "newText": "one\nthree\n"}
    ]
    assert (ran["kind"], ran["title"], ran["status"]) == ("execute", "`echo out; touch b`", "completed")
    assert "out" in ran["content"][0]["content"]["text"]
    plan = next(u for u in editor.updates if u["sessionUpdate"] == "plan")
    assert plan["entries"] == [{"content": "change it", "priority": "medium", "status": "in_progress"}]
    # The plan is shown as one, not as a call.
    assert not editor.last_call("call-2-1")
    assert [a["toolCallId"] for a in editor.asked] == ["call-2-2", "call-2-3"]
    asked = editor.asked[0]
    assert asked["content"][-1]["newText"] == "one\nthree\n"
    assert {kind for _, kind in asked["options"].values()} == {"allow_once", "allow_always", "reject_once"}
    assert {"available_commands_update", "session_info_update"} <= set(editor.kinds())


def test_a_rejected_call_is_refused_and_always_holds_for_the_session(tmp_path: Path) -> None:
    work = tmp_path / "work"
    touch = [call("Bash", command=f"touch {name}") for name in "abc"]
    replies = [{"calls": [touch[0]]}, {"calls": [touch[1]]}, {"calls": [touch[1]]}, {"text": "ok"}]

    async def story() -> FakeEditor:
        editor = FakeEditor()
        answers = iter(["n", "a"])
        editor.choose = lambda keys: next(answers)
        async with connected(work, replies, editor=editor) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"
            return editor

    editor = asyncio.run(story())
    assert not (work / "a").exists()
    assert (work / "b").exists()
    assert len(editor.asked) == 2
    assert editor.last_call("call-1-1")["status"] == "failed"


def test_modes_plans_and_questions(tmp_path: Path) -> None:
    work = tmp_path / "work"
    question = {"question": "Which one?", "header": "one", "options": [
        {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}  # fmt: skip
    replies = [
        {"calls": [call("AskUserQuestion", questions=[question])]},
        {"expect": "blue", "calls": [call("ExitPlanMode", plan="Make b.")]},
        {"calls": [call("Write", file_path="b", content="blue\n")]},
        {"text": "made"},
    ]

    async def story() -> FakeEditor:
        editor = FakeEditor()
        answers = iter(["2", "a"])
        editor.choose = lambda keys: next(answers)
        async with connected(work, replies, editor=editor) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert opened.modes.current_mode_id == "default"
            await here.agent.set_session_mode(session_id=opened.session_id, mode_id="plan")
            assert (await here.prompt(opened.session_id, "plan it")).stop_reason == "end_turn"
            with pytest.raises(RequestError, match="fast is not a permission mode"):
                await here.agent.set_session_mode(session_id=opened.session_id, mode_id="fast")
            changed = await here.agent.set_config_option(session_id=opened.session_id, config_id="effort", value="high")
            assert {o.id: o.current_value for o in changed.config_options}["effort"] == "high"
            return editor

    editor = asyncio.run(story())
    asked, plan = editor.asked
    assert asked["title"] == "Which one?"
    assert [name for name, _ in asked["options"].values()][:2] == ["red: warm", "blue: cold"]
    assert "Make b." in json.dumps(plan["content"])
    assert (work / "b").read_text() == "blue\n"
    modes = [u["currentModeId"] for u in editor.updates if u["sessionUpdate"] == "current_mode_update"]
    assert modes == ["acceptEdits"]


def test_cancel_stops_a_command_and_a_question_and_the_session_goes_on(tmp_path: Path) -> None:
    work = tmp_path / "work"
    replies = [
        {"calls": [call("Bash", command="touch begun; sleep 600")]},
        {"calls": [call("Bash", command="touch never")]},
        {"text": "still here"},
    ]

    async def story() -> FakeEditor:
        async with connected(work, replies) as here:
            editor, agent = here.editor, here.agent
            opened = await agent.new_session(cwd=str(work), mcp_servers=[])
            running = asyncio.create_task(here.prompt(opened.session_id, "sleep"))
            await editor.until(lambda u: u.get("toolCallId") == "call-1-1" and u.get("status") == "in_progress")
            await agent.cancel(session_id=opened.session_id)
            assert (await running).stop_reason == "cancelled"

            async def cancel() -> None:
                await agent.cancel(session_id=opened.session_id)
                editor.choose = lambda keys: None

            editor.on_ask = cancel
            assert (await here.prompt(opened.session_id, "ask me")).stop_reason == "cancelled"
            editor.on_ask = None
            assert (await here.prompt(opened.session_id, "go on")).stop_reason == "end_turn"
            return editor

    editor = asyncio.run(story())
    assert editor.text() == "still here"
    assert not (work / "never").exists()


def test_a_prompt_is_cancelled_by_the_id_of_its_request(tmp_path: Path) -> None:
    work = tmp_path / "work"
    replies = [{"calls": [call("Bash", command="touch begun; sleep 600")]}, {"text": "still here"}]

    async def story() -> FakeEditor:
        async with connected(work, replies) as here:
            editor, agent = here.editor, here.agent
            opened = await agent.new_session(cwd=str(work), mcp_servers=[])
            connection = agent._conn
            running = asyncio.create_task(here.prompt(opened.session_id, "sleep"))
            await editor.until(lambda u: u.get("toolCallId") == "call-1-1" and u.get("status") == "in_progress")
            # The IDs count the requests of the editor; one that is not known, or was answered, cancels nothing.
            latest = connection._next_request_id - 1
            for number in (999, 0, latest):
                await connection.send_notification("$/cancel_request", {"requestId": number})
            assert (await running).stop_reason == "cancelled"
            assert (await here.prompt(opened.session_id, "go on")).stop_reason == "end_turn"
            return editor

    assert asyncio.run(story()).text() == "still here"


def test_an_editor_with_a_terminal_is_offered_a_login_and_any_editor_a_logout(tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(tmp_path / "work", [{"text": "x"}]) as here:
            connection = here.agent._conn
            for terminal in (True, False):
                given = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": terminal}}}
                about = await connection.send_request("initialize", given)
                methods = {method["id"]: method for method in about["authMethods"]}
                assert ("login" in methods) is terminal and "environment" in methods
                assert not terminal or (methods["login"]["type"], methods["login"]["args"]) == ("terminal", ["login"])
                assert about["agentCapabilities"]["auth"] == {"logout": {}}
            assert await connection.send_request("logout", {}) == {}

    asyncio.run(story())


def test_after_a_logout_no_session_begins_with_the_stored_key(tmp_path: Path) -> None:
    work = tmp_path / "work"
    keys = KeyStore(tmp_path / "home/state/keys", keyring=False)

    async def story() -> None:
        async with connected(work, None, "--model", "openai/gpt-5") as here:
            connection = here.agent._conn
            await here.agent.authenticate(method_id="environment")
            await here.agent.new_session(cwd=str(work), mcp_servers=[])
            # Nothing is stored after it, and a second one is no error.
            assert await connection.send_request("logout", {}) == {}
            assert keys.names() == [] and not list(keys.folder.glob("openai*"))
            assert await connection.send_request("logout", {}) == {}
            for method, given in (
                ("session/new", {"cwd": str(work), "mcpServers": []}), ("authenticate", {"methodId": "environment"})
            ):  # fmt: skip
                with pytest.raises(RequestError) as caught:
                    await connection.send_request(method, given)
                assert caught.value.code == -32000

    keys.save("openai", Secret("sk-stored-key"))
    asyncio.run(story())


def test_what_is_announced_is_answered_and_what_is_unstable_needs_its_capability(tmp_path: Path) -> None:
    work = tmp_path / "work"

    async def story() -> None:
        async with connected(work, [{"text": "x"}]) as here:
            connection = here.agent._conn
            about = await connection.send_request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            can = about["agentCapabilities"]
            announced = {f"session/{name}" for name in can["sessionCapabilities"]} - {"session/additionalDirectories"}
            assert "session/fork" in announced and not {"nes", "providers", "positionEncoding"} & can.keys()
            assert "acp" not in can["mcpCapabilities"]
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            await here.prompt(opened.session_id, "hi")
            given = {"sessionId": opened.session_id, "cwd": str(work), "mcpServers": []}
            assert (await connection.send_request("session/fork", given))["sessionId"] != opened.session_id
            methods = (*announced, "providers/list", "nes/start", "mcp/connect", "document/didOpen")
            for method in methods:
                try:
                    await connection.send_request(method, given)
                    code = 0
                except RequestError as error:
                    code = error.code
                # Neither is known to the protocol as it is: it is answered as any method that does not exist.
                assert (code != -32601) is (method in announced), method

    asyncio.run(story())


def test_sessions_are_listed_loaded_in_another_process_and_forked(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    replies = [READ, {"calls": [edit("one", "two")]}, {"text": "first"}, {"text": "second"}]

    async def first() -> str:
        async with connected(work, replies) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            await here.prompt(opened.session_id, "begin")
            return str(opened.session_id)

    async def second(session_id: str) -> FakeEditor:
        async with connected(work, replies) as here:
            listed = await here.agent.list_sessions(cwd=str(work))
            assert [(s.session_id, s.title) for s in listed.sessions] == [(session_id, "begin")]
            with pytest.raises(RequestError, match="There is no session"):
                await here.agent.load_session(cwd=str(work), session_id="0" * 36, mcp_servers=[])
            await here.agent.load_session(cwd=str(work), session_id=session_id, mcp_servers=[])
            replayed = list(here.editor.updates)
            copy = await here.agent.fork_session(cwd=str(work), session_id=session_id, mcp_servers=[])
            assert copy.session_id != session_id
            assert (await here.prompt(copy.session_id, "and now")).stop_reason == "end_turn"
            here.editor.updates[:] = replayed
            return here.editor

    session_id = asyncio.run(first())
    editor = asyncio.run(second(session_id))
    assert editor.text("user_message_chunk") == "begin"
    assert editor.text() == "first"
    changed = editor.last_call("call-2-1")
    assert (changed["status"], changed["content"][0]["newText"]) == ("completed", "two\n")


def test_a_session_is_deleted_while_it_is_open_and_when_it_is_not(tmp_path: Path) -> None:
    work = tmp_path / "work"

    async def story() -> None:
        async with connected(work, [{"text": "one"}, {"text": "two"}]) as here:
            assert here.offers.agent_capabilities.session_capabilities.delete is not None  # type: ignore[attr-defined]
            ids = []
            for _ in range(2):
                opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
                await here.prompt(opened.session_id, "begin")
                ids.append(opened.session_id)
            await here.agent.close_session(session_id=ids[0])
            for left in (1, 0):
                # The package has no method for it yet.
                await here.agent._conn.send_request("session/delete", {"sessionId": ids.pop(0)})
                assert [s.session_id for s in (await here.agent.list_sessions(cwd=str(work))).sessions] == ids
                assert len(ids) == left
            # It is gone already, which is what was asked for.
            await here.agent._conn.send_request("session/delete", {"sessionId": "gone"})

    asyncio.run(story())


def test_images_linked_files_and_embedded_ones_reach_the_model(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("linked text\n")
    replies = [{"expect": "linked text", "text": "one"}, {"expect": "unsaved @a.txt text", "text": "two"}]

    async def story() -> FakeEditor:
        async with connected(work, replies, "--settings", '{"model_takes": ["image"]}') as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            link = ResourceContentBlock(type="resource_link", name="a.txt", uri=f"file://{work}/a.txt")
            image = ImageContentBlock(type="image", data=PIXEL, mime_type="image/png")
            assert (await here.prompt(opened.session_id, "look at ", link, image)).stop_reason == "end_turn"
            text = TextResourceContents(uri=f"file://{work}/new.txt#L3:4", text="unsaved @a.txt text")
            embedded = EmbeddedResourceContentBlock(type="resource", resource=text)
            assert (await here.prompt(opened.session_id, "and at ", embedded)).stop_reason == "end_turn"
            bad = ImageContentBlock(type="image", data=base64.b64encode(b"no image").decode(), mime_type="image/png")
            with pytest.raises(RequestError, match="it is not an image"):
                await here.prompt(opened.session_id, bad)
            return here.editor

    assert asyncio.run(story()).text() == "onetwo"


def test_servers_of_the_editor_give_tools(tmp_path: Path) -> None:
    work = tmp_path / "work"
    command, *args = mcp_command()
    replies = [{"calls": [{"name": "mcp__mine__env", "arguments": {"name": "X"}}]}, {"text": "ok"}]
    declared = McpServerStdio(name="mine", command=command, args=args, env=[EnvVariable(name="X", value="hello there")])

    async def story() -> FakeEditor:
        async with connected(work, replies) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[declared])
            while "ready" not in here.editor.text():  # a server may take longer to start than a first prompt waits
                await here.prompt(opened.session_id, "/mcp")
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"
            return here.editor

    editor = asyncio.run(story())
    assert "hello there" in editor.last_call("call-1-1")["rawOutput"]


def test_the_form_of_a_server_is_shown_whole(tmp_path: Path) -> None:
    work = tmp_path / "work"
    odd = McpServerStdio(
        name="odd", command=sys.executable, args=[str(ROOT / "tests/support/mcp/odd_server.py"), "plain"], env=[]
    )
    replies = [{"calls": [call("mcp__odd__ask")]}, {"text": "ok"}]
    forms = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))

    async def story() -> FakeEditor:
        editor = FakeEditor()
        editor.forms = [{"name": "Ann", "loud": True}]
        async with connected(work, replies, editor=editor, capabilities=forms) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[odd])
            while "ready" not in here.editor.text():
                await here.prompt(opened.session_id, "/mcp")
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"
            return editor

    editor = asyncio.run(story())
    assert editor.shown[0] == "The MCP server odd asks: Who are you?"
    assert "loud" in str(editor.shown[1])
    assert "Ann" in editor.last_call("call-1-1")["rawOutput"]


def test_two_sessions_in_one_process_are_independent(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    other.mkdir()
    replies = [{"calls": [call("Bash", command="pwd > where")]}, {"text": "ok"}]

    async def story() -> None:
        async with connected(work, replies) as here:
            agent = here.agent
            one = await agent.new_session(cwd=str(work), mcp_servers=[])
            two = await agent.new_session(cwd=str(other), mcp_servers=[])
            await asyncio.gather(here.prompt(one.session_id, "go"), here.prompt(two.session_id, "go"))
            await agent.close_session(session_id=one.session_id)
            with pytest.raises(RequestError, match="is not open here"):
                await here.prompt(one.session_id, "go")

    asyncio.run(story())
    assert (work / "where").read_text().strip() == os.path.realpath(work)
    assert (other / "where").read_text().strip() == os.path.realpath(other)
