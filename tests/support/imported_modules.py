"""Which modules a run of the program imports, and what it compiles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.program import clean_env

RUN = """
import json, re._compiler, sys

compiled = []
compile_pattern = re._compiler.compile

def noted(pattern, flags=0):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"].partition(".")[0] == "re":
        frame = frame.f_back
    if frame.f_globals["__name__"].startswith("agent"):
        compiled.append(repr(pattern))
    return compile_pattern(pattern, flags)

def on_event(event, given):
    # Named tuples of the library are expressions, too.
    if event == "compile" and given[1] == "<string>" and sys._getframe(1).f_globals["__name__"] != "collections":
        compiled.append(repr(given[0]))

re._compiler.compile = noted
sys.addaudithook(on_event)
from agent_cli.__main__ import guarded
code = guarded(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules), compiled]))
"""


def loaded(folder: Path, *args: str, **env: str) -> set[str]:
    """The modules that a successful run has loaded at its end."""
    return set(_run(folder, *args, **env)[0])


def compiled(folder: Path, *args: str, **env: str) -> list[str]:
    """The patterns that modules of the program have compiled, and expressions in a text, such as names of types."""
    return _run(folder, *args, **env)[1]


def _run(folder: Path, *args: str, **env: str) -> tuple[list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *args],
        cwd=folder,
        env=clean_env(folder / "home", **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    code, modules, found = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return modules, found
