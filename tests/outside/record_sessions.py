"""Record the sessions in `tests/takeover/recorded`: `python -m tests.outside.record_sessions CLIENTS [PROGRAM...]`.

CLIENTS: a folder in which npm has installed the programs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.outside.foreign_programs import program
from tests.support.foreign_stores import PROGRAMS, RECORDED, freeze


def record(name: str, clients: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Let a program work; return what it left after each part of the day."""
    worker = program(name, clients, folder)
    with worker.model() as server:
        worker.work_day(server)
        worked = freeze(name, worker.home, worker.work)
        worker.later(server)
        return {"worked": worked, "later": freeze(name, worker.home, worker.work)}


if __name__ == "__main__":
    for name in sys.argv[2:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as made:
            for part, found in record(name, Path(sys.argv[1]), Path(made) / name).items():
                (RECORDED / f"{name}-{part}.json").write_text(json.dumps(found, indent=1) + "\n")
