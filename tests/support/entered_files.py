"""Which files of the program one round of tool calls enters, counted with a profile hook in the real program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.program import clean_env

RUN = """
import json, sys, threading
from agent_cli.__main__ import guarded

entered = []
imports = {}

def on_event(frame, event, argument):
    # What runs while a module is imported is no step of a call.
    name, thread = frame.f_code.co_name, threading.get_ident()
    if name == "<module>":
        imports[thread] = imports.get(thread, 0) + (1 if event == "call" else -1 if event == "return" else 0)
    elif event == "call" and not imports.get(thread):
        entered.append((frame.f_code.co_filename, name))

threading.setprofile(on_event)
sys.setprofile(on_event)
code = guarded(sys.argv[1:])
sys.setprofile(None)
calls = [at for at, (file, name) in enumerate(entered) if name == "run_calls"]
during = [file for file, name in entered[calls[0]:calls[-1] + 1]]
print(json.dumps([code, sorted(set(during))]))
"""


def files_of_a_call(folder: Path, *args: str) -> set[str]:
    """The program's files whose functions are entered from the first tool call's start until its result is in."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *args],
        cwd=folder,
        env=clean_env(folder / "home"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    code, files = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    shown = (Path(f).parts for f in files)
    return {"/".join(p[-4:]) for p in shown if {"agent_cli", "agent_tools"} & {*p[-5:]}}
