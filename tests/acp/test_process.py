"""The process of `agent acp`: its errors, what it writes, what it trusts, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from acp import RequestError
from acp.schema import ClientCapabilities, ElicitationCapabilities, ElicitationFormCapabilities

from tests.support.editor_client import WAIT, FakeEditor, connected
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.scripts import call, script, task

FORMS = ClientCapabilities(elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()))


def test_every_error_is_one_sentence_and_standard_output_has_the_protocol_only(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "here", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {"cwd": f"{work}/no", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 4, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}},
        {"jsonrpc": "2.0", "id": 5, "method": "session/prompt", "params": {"sessionId": "x"}},
        {"jsonrpc": "2.0", "id": 6, "method": "no/such", "params": {}},
        {"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": str(work), "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 8, "method": "authenticate", "params": {"methodId": "environment"}},
    ]
    sent = "not json\n" + "".join(f"{json.dumps(request)}\n" for request in requests)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    answers: dict[int, dict[str, object]] = {}
    with start(["acp"], work, clean_env(tmp_path / "home"), **pipes) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(sent.encode())
        process.stdin.flush()
        while len(answers) < len(requests):
            found = json.loads(process.stdout.readline())
            answers[found["id"]] = found
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
        assert process.wait(WAIT) == 0
    assert answers[1]["result"]["protocolVersion"] == 1  # type: ignore[index]
    errors = {n: answers[n]["error"] for n in range(2, 9)}
    assert errors[2]["message"] == "cwd is 'here': it has to be an absolute path."  # type: ignore[index]
    assert errors[3]["message"] == f"{work}/no is not a folder."  # type: ignore[index]
    assert errors[4]["message"] == "Session x is not open here: load it first."  # type: ignore[index]
    assert errors[5]["message"] == "session/prompt: prompt: Field required."  # type: ignore[index]
    assert errors[6]["message"] == "agent does not answer no/such."  # type: ignore[index]
    for number in (7, 8):
        assert errors[number]["code"] == -32000  # type: ignore[index]
        assert "No model is configured" in errors[number]["message"]  # type: ignore[index]


def test_a_malformed_message_does_not_end_the_connection(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    lines = ("[]", "7", "null", '"x"', "\xff", '{"id": [], "result": {}}', '{"id": 0, "error": "no"}', '{"method": []}')
    sent = "".join(f"{line}\n" for line in lines) + '{"id": 1, "method": 7}\n{"id": 2, "method": "no/such"}\n'
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(["acp"], work, clean_env(tmp_path / "home"), **pipes) as process:
        out, err = process.communicate(sent.encode("latin-1"), timeout=WAIT)
    answers = [json.loads(line) for line in out.splitlines()]
    assert {answer["id"]: answer["error"]["message"] for answer in answers} == {
        1: "The method has to be a string.",
        2: "agent does not answer no/such.",
    }
    assert (process.returncode, err) == (0, b"")


def test_without_an_editor_it_says_that_one_starts_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(["acp"], work, clean_env(tmp_path / "home"), stdin=subprocess.DEVNULL, **pipes) as process:
        out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out) == (2, b"")
    assert b"agent acp is started by an editor" in err


def test_a_model_that_fails_is_an_error_of_the_prompt_and_the_session_stays(tmp_path: Path) -> None:
    work = tmp_path / "work"
    error = {"kind": "bad_request", "message": "the provider says no", "retryable": False}

    async def story() -> None:
        async with connected(work, [{"error": error}, {"text": "better"}]) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            with pytest.raises(RequestError, match="the provider says no"):
                await here.prompt(opened.session_id, "go")
            assert (await here.prompt(opened.session_id, "again")).stop_reason == "end_turn"
            assert here.editor.text() == "better"

    asyncio.run(story())


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_user_is_asked_whether_a_project_is_trusted(tmp_path: Path, answer: str) -> None:
    work = tmp_path / "work"
    (work / ".agent/commands").mkdir(parents=True)
    (work / ".agent/commands/greet.md").write_text("Say good day.\n")
    replies = [{"expect": "good day" if answer == "y" else "hello", "text": "ok"}]

    async def story() -> FakeEditor:
        editor = FakeEditor()
        editor.choose = lambda keys: answer
        async with connected(work, replies, editor=editor) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            result = await here.prompt(opened.session_id, "/greet" if answer == "y" else "hello")
            assert result.stop_reason == "end_turn"
            return editor

    editor = asyncio.run(story())
    assert len(editor.asked) == 1
    assert "commands: greet" in json.dumps(editor.asked[0])
    assert editor.text() == "ok" if answer == "y" else editor.text().endswith("ok")


def test_commands_run_by_name_and_those_of_a_terminal_say_so(tmp_path: Path) -> None:
    work = tmp_path / "work"

    async def story() -> FakeEditor:
        async with connected(work, [{"text": "ok"}]) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            for line in ("/status", "/clear", "/nonsense", "/mode plan"):
                assert (await here.prompt(opened.session_id, line)).stop_reason == "end_turn"
            await here.agent.set_session_mode(session_id=opened.session_id, mode_id="default")
            return here.editor

    editor = asyncio.run(story())
    assert "trust      nothing to trust" in editor.text()
    assert "/clear is for a terminal" in editor.text()
    assert "Unknown command /nonsense" in editor.text()
    names = {c["name"] for u in editor.updates for c in u.get("availableCommands", ())}
    assert {"compact", "undo", "init", "review"} <= names
    assert not {"clear", "exit", "vim"} & names
    assert [u["currentModeId"] for u in editor.updates if "currentModeId" in u] == ["plan"]


def test_a_form_takes_the_reason_of_a_no(tmp_path: Path) -> None:
    work = tmp_path / "work"
    replies = [{"calls": [call("Bash", command="touch a")]}, {"expect": "use b instead", "text": "ok"}]

    async def story() -> FakeEditor:
        editor = FakeEditor()
        editor.choose = lambda keys: "r"
        editor.forms = ["use b instead"]
        async with connected(work, replies, editor=editor, capabilities=FORMS) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"
            return editor

    editor = asyncio.run(story())
    assert editor.text() == "ok"
    assert editor.asked[0]["options"]["r"] == ("no, because", "reject_once")


@pytest.mark.parametrize("how", ["closed", "signal"])
def test_when_the_editor_is_gone_the_process_ends_with_its_children(tmp_path: Path, how: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    model = script(tmp_path / "s.toml", [{"calls": [call("Bash", command="echo $$ > pid; sleep 600")]}])
    args = ["acp", "--model", model, "--permission-mode", "bypassPermissions"]
    env = clean_env(tmp_path / "home", IS_SANDBOX="1")
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(args, work, env, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(number: int, method: str, **params: object) -> None:
            line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            process.stdin.write(f"{line}\n".encode())  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

        ask(1, "initialize", protocolVersion=1)
        ask(2, "session/new", cwd=str(work), mcpServers=[])
        session = ""
        while not session:
            found = json.loads(process.stdout.readline())
            session = found.get("result", {}).get("sessionId", "")
        ask(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        until = time.monotonic() + WAIT
        while not (work / "pid").exists() or not (work / "pid").read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        child = int((work / "pid").read_text())
        if how == "closed":
            process.stdin.close()
            process.stdout.close()
        else:
            process.send_signal(signal.SIGTERM)
        process.wait(WAIT)
        while time.monotonic() < until:
            with suppress(ProcessLookupError):
                os.kill(child, 0)
                time.sleep(0.02)
                continue
            break
        else:
            pytest.fail("the command still runs")


def test_an_editor_with_terminals_is_given_the_output_as_it_comes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    replies = [{"calls": [call("Bash", command="printf 'a\\nb\\n'; exit 3")]}, {"text": "ok"}]
    terminals = ClientCapabilities(field_meta={"terminal_output": True})

    async def story() -> FakeEditor:
        mode = ("--permission-mode", "bypassPermissions")
        async with connected(work, replies, *mode, capabilities=terminals) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            await here.prompt(opened.session_id, "go")
            return here.editor

    editor = asyncio.run(story())
    metas = [u["_meta"] for u in editor.updates if u.get("toolCallId") == "call-1-1" and "_meta" in u]
    assert metas[0]["terminal_info"]["terminal_id"] == "call-1-1"
    assert "".join(m["terminal_output"]["data"] for m in metas if "terminal_output" in m).startswith("a\r\nb")
    assert metas[-1]["terminal_exit"]["exit_code"] == 3
    assert editor.last_call("call-1-1")["content"] == [{"type": "terminal", "terminalId": "call-1-1"}]


def test_a_session_that_waits_asks_in_the_editor_before_the_next_prompt(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    replies = [{"calls": [call("Bash", command="touch a")]}, {"text": "made"}, {"text": "next"}]
    model = script(tmp_path / "script.toml", replies)
    suspended = agent(["-p", "--model", model, "--on-ask", "suspend", "--output-format", "json", "go"], work)
    session_id = json.loads(suspended.stdout)["session_id"]

    async def story() -> FakeEditor:
        async with connected(work, replies) as here:
            await here.agent.load_session(cwd=str(work), session_id=session_id, mcp_servers=[])
            assert (await here.prompt(session_id, "and then")).stop_reason == "end_turn"
            return here.editor

    editor = asyncio.run(story())
    assert (work / "a").exists()
    assert [asked["title"] for asked in editor.asked] == ["`touch a`"]
    assert editor.text().endswith("madenext")


def test_calls_of_a_sub_agent_name_their_parent(tmp_path: Path) -> None:
    work = tmp_path / "work"
    inner = [{"text": "inner words", "calls": [call("Bash", command="touch a")]}, {"text": "found"}]
    kinds = tmp_path / "home/.agent/agents"
    kinds.mkdir(parents=True)
    model = script(tmp_path / "inner.toml", inner)
    (kinds / "helper.md").write_text(f"---\nname: helper\ndescription: helps\nmodel: {model}\n---\nHelp.\n")

    async def story() -> FakeEditor:
        async with connected(work, [{"calls": [task("helper")]}, {"text": "ok"}]) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            assert (await here.prompt(opened.session_id, "go")).stop_reason == "end_turn"
            return here.editor

    editor = asyncio.run(story())
    assert (work / "a").exists()
    assert editor.text() == "ok"
    assert "for sub-agent helper: find it" in json.dumps(editor.asked[0]["content"])
    nested = next(u for u in editor.updates if u.get("title") == "`touch a`")
    assert nested["_meta"]["agent"]["parentToolCallId"] == "call-1-1"
    assert editor.last_call("call-1-1")["status"] == "completed"
    assert editor.last_call(nested["toolCallId"])["status"] == "completed"
