"""Every option, method, function and hook event of the Agent SDKs has a test here, or a reason for having none.

The names come from the packages that `make outside` installs, so a new one fails this until it is tried.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.hooks.events import HOOK_EVENTS
from tests.support.client_home import CLIENTS
from tests.support.program import ROOT

TABLE: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("api_coverage.toml").read_text("utf-8")
)
_ASK = """
import dataclasses, inspect, json, re, typing
import claude_agent_sdk as sdk
from claude_agent_sdk import types
functions = [name for name in sdk.__all__ if inspect.isfunction(getattr(sdk, name))]
hints = str(typing.get_type_hints(types.ClaudeAgentOptions, vars(types))["hooks"])
print(json.dumps({
    "options": [field.name for field in dataclasses.fields(sdk.ClaudeAgentOptions)],
    "methods": [name for name, _ in inspect.getmembers(sdk.ClaudeSDKClient) if not name.startswith("_")],
    "functions": functions,
    "hooks": re.findall(r"Literal\\['(\\w+)'\\]", hints),
}))
"""


def listed(rows: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names of a part of the table, each with where it is shown; "" for one that has only a reason."""
    for where, names in rows.items():
        if isinstance(names, dict):
            yield from ((name, "") for text in names.values() for name in text.split())
        else:
            yield from ((name, where) for name in names.split())


def python_names() -> dict[str, list[str]]:
    done = subprocess.run(
        [str(CLIENTS / "py/bin/python"), "-c", _ASK], capture_output=True, text=True, timeout=60, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def npm_names() -> dict[str, list[str]]:
    text = (CLIENTS / "npm/node_modules/@anthropic-ai/claude-agent-sdk/sdk.d.ts").read_text("utf-8")
    options = text[text.index("export declare type Options = {") :].partition("\n};")[0]
    methods = text[text.index("export declare interface Query ") :].partition("\n}")[0]
    events = text[text.index("HOOK_EVENTS: readonly [") :].partition("]")[0]
    return {
        "options": re.findall(r"^    (\w+)\??:", options, re.MULTILINE),
        "methods": [name for name in re.findall(r"^    (\w+)\(", methods, re.MULTILINE) if "EXPERIMENTAL" not in name],
        "hooks": re.findall(r"'(\w+)'", events),
    }


@pytest.mark.parametrize(("sdk", "part"), [(sdk, part) for sdk, parts in TABLE.items() for part in parts])
def test_what_the_table_names_is_there(sdk: str, part: str) -> None:
    names = [name for name, _ in listed(TABLE[sdk][part])]
    assert len(names) == len(set(names)), "a name stands in two places"
    for name, where in listed(TABLE[sdk][part]):
        file, _, inside = where.partition("::")
        text = (ROOT / "tests" / file).read_text("utf-8") if where else ""
        assert inside in text, where
        # What a script passes or calls, it names; the two SDKs spell it in their languages' ways.
        python = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        shown = name in HOOK_EVENTS if part == "hooks" else name in text or python in text
        assert shown or not where, f"{where} does not name {name}"


@pytest.mark.skipif(not (CLIENTS / "py").is_dir(), reason="make outside installs the SDK")
@pytest.mark.parametrize("part", TABLE["python"])
def test_every_name_of_the_sdk_for_python_is_in_the_table(part: str) -> None:
    assert {name for name, _ in listed(TABLE["python"][part])} == set(python_names()[part])


@pytest.mark.skipif(not (CLIENTS / "npm/node_modules").is_dir(), reason="make outside installs the SDK")
@pytest.mark.parametrize("part", TABLE["npm"])
def test_every_name_of_the_sdk_of_npm_is_in_the_table(part: str) -> None:
    assert {name for name, _ in listed(TABLE["npm"][part])} == set(npm_names()[part])
