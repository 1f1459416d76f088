"""Commands with a terminal of their own: what they see, typed input, Ctrl-C, and that none is left behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_tools.results import Note
from agent_tools.sandbox.profile import Profile, make_profile
from agent_tools.sandbox.runner import SandboxRunner
from agent_tools.sandbox.temporary import TemporaryMount
from agent_tools.shell.jobs import Jobs
from tests.support.tool_bench import Bench
from tests.support.waiting import gone, soon


@pytest.fixture(autouse=True, params=["plain", "sandboxed"])
def closed(request: pytest.FixtureRequest, bench: Bench) -> Iterator[None]:
    if request.param == "sandboxed":

        def profile(temp: tuple[TemporaryMount, ...], network: bool) -> Profile:
            return make_profile([bench.root], None, temp=temp, network=network)

        bench.ctx.supply(SandboxRunner("auto", profile, dict(bench.ctx.env)))
        if not bench.ctx.supplied(SandboxRunner).is_active:
            pytest.skip(f"NO SANDBOX WORKS HERE: {bench.ctx.supplied(SandboxRunner).sandbox.text()}")
    yield
    bench.ctx.close()


def typed(bench: Bench, text: str, until: str) -> str:
    """Type, and look until a text is there; all that was said."""
    found = bench("BashInput", shell_id="b1", text=text).text

    def seen() -> bool:
        nonlocal found
        if until not in found:
            found += bench("BashOutput", shell_id="b1").text
        return until in found

    assert soon(seen), found
    return found


def test_a_command_sees_a_terminal_of_usual_size(bench: Bench) -> None:
    result = bench(
        "Bash", command="tty >/dev/null && echo yes; stty size; echo $TERM; printf '\\033[1mx\\033[0m'", pty=True
    )
    text = result.text
    if "yes" not in text:
        text += bench("BashOutput", shell_id="b1", timeout=60_000).text
    assert "yes\n24 80\nxterm\nx" in text and "\x1b" not in text and "\r" not in text


def test_a_prompt_is_answered(bench: Bench) -> None:
    result = bench("Bash", command="read -p 'Name? ' name </dev/tty; echo \"Hello $name.\"; exit 3", pty=True)
    assert result.text.startswith("Name?") and "BashInput types into it]" in result.text
    assert isinstance(result.display, Note)
    found = typed(bench, "Ann\n", "exit code 3")
    assert "Hello Ann." in found
    assert "b1 has ended: exit code 3" in bench.fails("BashInput", shell_id="b1", text="x")


def test_a_repl_is_driven(bench: Bench) -> None:
    bench("Bash", command=f"{sys.executable} -q -i -c 'print(\"ready\")'", pty=True)
    assert "42" in typed(bench, "6 * 7\n", "42")
    assert "exit code 0" in typed(bench, "exit()\n", "exit code 0")


def test_control_c_reaches_it(bench: Bench) -> None:
    bench("Bash", command="trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done", pty=True)
    assert "caught" in typed(bench, "\x03", "exit code 5")


def test_it_ends_with_the_conversation_and_on_request(bench: Bench) -> None:
    for _ in range(2):
        bench("Bash", command="echo ready; sleep 60 & cat", pty=True)
    assert "b1 was stopped" in bench("KillShell", shell_id="b1").text
    jobs = [bench.ctx.state(Jobs).find(f"b{n}") for n in (1, 2)]
    assert not jobs[0].running and jobs[1].running
    bench.ctx.close()
    assert soon(lambda: all(gone(job.pid) for job in jobs))


def test_only_what_has_a_terminal_takes_input(bench: Bench) -> None:
    bench("Bash", command="sleep 60", run_in_background=True)
    assert "b1 has no terminal to type into. Start it with pty=true." in bench.fails(
        "BashInput", shell_id="b1", text="x"
    )
    assert "No background command has the ID" in bench.fails("BashInput", shell_id="b9", text="x")


def test_a_terminal_has_no_time_limit(bench: Bench) -> None:
    bench.ctx.settings["shell_timeout"] = 0.2
    for more in ({}, {"timeout": 200}):
        bench("Bash", command="read -p '> ' line </dev/tty; echo got $line", pty=True, **more)
    jobs = bench.ctx.state(Jobs)
    assert not jobs.find("b2").wait_end(0.5)
    assert "got hello" in typed(bench, "hello\n", until="got hello") and jobs.find("b2").running
    assert "timeout is in milliseconds" in bench.fails("Bash", command="cat", pty=True, timeout=0)


def test_what_nobody_reads_is_not_waited_for(bench: Bench) -> None:
    bench("Bash", command="stty -icanon -echo; echo ready; sleep 60", pty=True)
    assert "does not read its input" in bench.fails("BashInput", shell_id="b1", text="x" * 1_000_000)


def test_no_descriptor_is_left_open(bench: Bench) -> None:
    def count() -> int:
        gc.collect()  # what earlier tests of this process left is closed now
        return len(list(Path("/dev/fd").iterdir()))

    bench("Bash", command="echo x", pty=True)
    assert bench.ctx.state(Jobs).find("b1").wait_end(20)
    before = count()
    for number in range(2, 5):
        bench("Bash", command="echo x", pty=True)
        bench("KillShell", shell_id=f"b{number}")
    assert count() <= before


def test_keys_have_names(bench: Bench) -> None:
    bench("Bash", command="trap 'echo caught; exit 5' INT; read -p 'Name? ' name; echo \"Hello $name.\"; cat", pty=True)
    assert "Hello Ada." in typed(bench, "Ada\\n", "Hello Ada.")
    found = bench("BashInput", shell_id="b1", keys=["Ctrl-C"]).text
    assert "caught" in found or "caught" in typed_output(bench, "caught")
    assert "nothing to type" in bench.fails("BashInput", shell_id="b1")


def typed_output(bench: Bench, until: str) -> str:
    found = ""

    def seen() -> bool:
        nonlocal found
        found += bench("BashOutput", shell_id="b1").text
        return until in found

    assert soon(seen), found
    return found


MENU = """
import os, sys, tty
tty.setraw(0)
names, at = ["red", "green", "blue"], 0
sys.stdout.write("\\x1b[?1049h")
while True:
    rows = "".join(f"\\x1b[{n + 2};3H{'>' if n == at else ' '} {name}" for n, name in enumerate(names))
    sys.stdout.write(f"\\x1b[2J\\x1b[1;1HPick a color{rows}")
    sys.stdout.flush()
    key = os.read(0, 10)
    at = min(at + key.count(b"\\x1b[B"), 2)
    if key == b"\\r":
        break
sys.stdout.write(f"\\x1b[?1049lYou took {names[at]}.\\r\\n")
"""


def test_of_a_program_that_draws_the_screen_is_shown(bench: Bench) -> None:
    bench.file("menu.py", MENU)
    first = bench("Bash", command=f"{sys.executable} menu.py", pty=True).text
    first = first if "Pick" in first else typed_output(bench, "Pick a color")
    assert "Pick a color\n  > red\n    green\n    blue\n[the screen of the program; the cursor is in row 4" in first
    moved = bench("BashInput", shell_id="b1", keys=["Down", "Down"]).text
    assert "  > blue\n[the screen" in moved or "  > blue\n[the screen" in typed_output(bench, "> blue")
    assert "You took blue." in typed(bench, "\n", "You took blue.")
