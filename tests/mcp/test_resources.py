"""The model's own tools for resources: offered only where a server has some; binary data ends in a file."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from agent_cli.mcp.answers import read_contents
from agent_tools.results import Media
from tests.support.mcp.running import config, forked, raw
from tests.support.program import agent
from tests.support.scripts import call, script
from tests.support.tool_bench import Bench


def run(work: Path, servers: dict[str, Any], *replies: dict[str, Any], allow: str = "") -> list[dict[str, Any]]:
    model = script(work.parent / "s.toml", [*replies, {"text": "done"}])
    args = ["-p", "go", "--model", model, "--mcp-config", json.dumps({"mcpServers": servers})]
    # A slow machine may need longer to start a server.
    args += ["--settings", json.dumps({"mcp": {"wait": 60}})]
    done = agent([*args, "--output-format", "stream-json", *(["--allowedTools", allow] if allow else [])], work)
    assert done.returncode in (0, 5), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def results(lines: list[dict[str, Any]]) -> list[str]:
    return [e["message"]["content"][0]["content"] for e in lines if e["type"] == "user"]


def test_resources_are_listed_and_read(work: Path) -> None:
    calls = [
        call("ListMcpResourcesTool"),
        call("ReadMcpResourceTool", server="good", uri="note://one"),
        call("ReadMcpResourceTool", server="bad", uri="note://one"),
    ]
    lines = run(work, config("good", forked()), *({"calls": [c]} for c in calls), allow="ReadMcpResourceTool")
    assert {"ListMcpResourcesTool", "ReadMcpResourceTool"} <= set(lines[0]["tools"])
    listed, read, wrong = results(lines)
    entry = json.loads(listed)
    assert (entry["uri"], entry["server"]) == ("note://one", "good")
    assert read == "buy milk"
    assert "The servers are: good." in wrong


def test_reading_asks_as_a_call_of_the_server_does(work: Path) -> None:
    lines = run(
        work, config("good", forked()), {"calls": [call("ReadMcpResourceTool", server="good", uri="note://one")]}
    )
    assert "buy milk" not in results(lines)[0]


def test_without_resources_there_are_no_tools_for_them(work: Path) -> None:
    assert not {"ListMcpResourcesTool", "ReadMcpResourceTool"} & set(run(work, config("raw", raw()))[0]["tools"])


def test_binary_data_is_saved_and_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    media: list[Media] = []
    data = bytes(range(256))
    blob = {"mimeType": "application/pdf", "blob": base64.b64encode(data).decode()}
    text = read_contents({"contents": [blob]}, media, bench.ctx)
    assert text.startswith("[application/pdf of 256 bytes, saved in ")
    assert Path(text.removesuffix("]").rpartition(" ")[2]).read_bytes() == data
    assert "damaged" in read_contents([{"mimeType": "x/y", "blob": "%%"}], media, bench.ctx)
    assert media == []
