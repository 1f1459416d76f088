"""The end-to-end tests of the Agent SDK for Python, from its repository, with this program in Claude Code's place.

The model is one on loopback that does what their prompts say. `make outside` fetches the SDK and its tests.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.client_home import CLIENTS, environment

# Claude Code obeys settings of a project that nobody has trusted: .claude/settings.local.json in a new folder.
DIFFERENT = {"test_setting_sources_default"}


@pytest.mark.skipif(not (CLIENTS / "sdk-src/e2e-tests").is_dir(), reason="make outside fetches the SDK's tests")
@pytest.mark.timeout(1000)
def test_the_sdks_own_tests_pass(tmp_path: Path, model: str) -> None:
    report = tmp_path / "report.xml"
    env = environment(tmp_path / "home", model) | {"PYTHONPATH": str(Path(__file__).parent)}
    command = [str(CLIENTS / "py/bin/python"), "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    command += ["-p", "agent_as_cli", "--rootdir", str(CLIENTS / "sdk-src"), f"--junitxml={report}", "e2e-tests"]
    done = subprocess.run(command, cwd=CLIENTS / "sdk-src", env=env, capture_output=True, text=True, timeout=900)
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None}
    print(
        f"{len(cases) - len(failed)} of {len(cases)} tests of the SDK pass; not: {', '.join(sorted(map(str, failed)))}"
    )
    assert len(cases) >= 42, done.stdout
    assert failed <= DIFFERENT, done.stdout[-20_000:]
