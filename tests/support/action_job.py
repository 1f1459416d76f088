"""A job of GitHub that runs our action, from action.yml."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.support.fork_server import ROOT
from tests.support.program import clean_env

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}


class Job:
    """A job of GitHub: its folders, variables and the steps of the action."""

    def __init__(self, base: Path, work: Path, event: dict[str, Any], name: str) -> None:
        self.base, self.work = base, work
        self.temp = base / "runner"
        (self.temp / "agent-venv/bin").mkdir(parents=True)
        # The step before installs here; this one is installed already.
        (self.temp / "agent-venv/bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (self.temp / "agent-venv/bin/python").chmod(0o755)
        (base / "event.json").write_text(json.dumps(event))
        self.env = clean_env(
            base / "home", GITHUB_OUTPUT=str(base / "output"), GITHUB_STEP_SUMMARY=str(base / "summary"),
            GITHUB_EVENT_PATH=str(base / "event.json"), GITHUB_EVENT_NAME=name, GITHUB_WORKSPACE=str(work),
            GITHUB_REPOSITORY="o/r", RUNNER_TEMP=str(self.temp), GITHUB_ACTIONS="true", CI="true",
        )  # fmt: skip

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
        given["github_token"] = ""
        assert not inputs.keys() - given.keys()
        step = STEPS["Run agent"]
        env = {**self.env, "INPUT_JSON": json.dumps(given | inputs)}
        return subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=self.work, env=env, text=True,
                              capture_output=True, timeout=120, check=False)  # fmt: skip

    def outputs(self) -> dict[str, str]:
        text = (self.base / "output").read_text()
        return {name: value for name, _, value in re.findall(r"^([\w-]+)<<(END-\w+)\n(.*?)\n\2$", text, re.M | re.S)}
