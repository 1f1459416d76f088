"""The entry for the registry of ACP agents: what its schema and its checks of authentication require."""

from __future__ import annotations

import json
import re
import tomllib

from agent_cli import __version__
from agent_cli.kernel.version import PACKAGE
from tests.support.fork_server import ROOT
from tests.support.program import agent

FOLDER = ROOT / "docs/acp-registry"
ENTRY = json.loads((FOLDER / "agent.json").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_entry_has_the_fields_of_the_schema() -> None:
    assert {"id", "name", "version", "description", "distribution", "license_url"} <= set(ENTRY)
    assert re.fullmatch("[a-z][a-z0-9-]*", ENTRY["id"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", ENTRY["version"])
    assert set(ENTRY["distribution"]) <= {"binary", "npx", "uvx"}
    assert set(ENTRY["distribution"]["uvx"]) <= {"package", "args", "env"}


def test_the_entry_is_that_of_this_version() -> None:
    assert (ENTRY["id"], ENTRY["version"]) == (PACKAGE, __version__)
    assert (ENTRY["description"], ENTRY["license"]) == (PROJECT["description"], PROJECT["license"])
    assert ENTRY["distribution"]["uvx"] == {"package": f"{PACKAGE}=={__version__}", "args": ["acp"]}
    # `uvx PACKAGE` runs the program of that name.
    assert PACKAGE in PROJECT["scripts"]


def test_the_icon_takes_the_color_of_the_editor() -> None:
    icon = (FOLDER / "icon.svg").read_text()
    assert 'width="16" height="16"' in icon
    assert set(re.findall(r'(?:fill|stroke)="([^"]+)"', icon)) == {"none", "currentColor"}


def test_a_login_in_a_terminal_works_behind_the_usual_arguments_as_well(work) -> None:  # type: ignore[no-untyped-def]
    assert agent(["acp", "login"], work).stderr == agent(["login"], work).stderr != ""
