"""Sessions that the real programs write today are taken over as the recorded ones are; run by `make outside`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from agent_cli.kernel.session.store import SessionStore
from tests.outside.record_sessions import record
from tests.support.client_home import CLIENTS
from tests.support.foreign_stores import PROGRAMS, recorded, thaw
from tests.support.program import agent
from tests.support.taken_sessions import WIRES, WORKED, ask, shown, take

NPM = Path(os.environ.get("AGENT_FOREIGN_CLIENTS", CLIENTS / "npm"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_session_written_now_is_taken_over_and_continued(work: Path, home: Path, tmp_path: Path, name: str) -> None:
    if not (NPM / "node_modules/.bin" / name).exists():
        pytest.skip(f"NOT TESTED: {name} is not installed")
    made = record(name, NPM, tmp_path / "their")
    for part in ("worked", "later"):
        found = []
        for store in (made[part], recorded(name, part)):
            for path in home.iterdir():
                shutil.rmtree(path)
            thaw(store, home, work)
            taken = []
            for row in _rows(work, name):
                session_id = take(work, name, row)["session_id"]
                [path] = home.glob(f"state/sessions/*/{session_id}.jsonl")
                lines = shown(SessionStore.at(path.parent).session(session_id).load())
                # How much Gemini CLI keeps after its summary depends on the lengths of paths.
                taken.append([*lines[:2], *lines[-3:]] if (name, part) == ("gemini", "later") else lines)
            found.append(sorted(taken))
            for model in WIRES:
                ask(work, model, "-r", f"@{name}", "And now?")
        assert found[0] == found[1]
        assert part == "later" or found[0] == [WORKED[name]]


def _rows(work: Path, name: str) -> list[str]:
    listed = agent(["sessions", "import", name, "--list", "--json"], work)
    return [row["source_id"] for row in json.loads(listed.stdout)]
