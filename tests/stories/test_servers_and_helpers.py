"""MCP, hooks, a sub-agent and a server in the background in one session, whose terminal closes at a question."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

from tests.support.fork_server import ROOT
from tests.support.model_replies import Call
from tests.support.stories.day import TERMINALS, Day, story
from tests.support.stories.front_ends import Application
from tests.support.stories.model import bash, says, task, write

GUARD = """
import json, sys
call = json.load(sys.stdin)
if any("/gen/" in effect["target"] for effect in call["effects"]):
    print("gen/ is generated: change the template", file=sys.stderr)
    sys.exit(2)
"""
SERVE = """
import http.server
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
open("../port", "w").write(str(server.server_port))
server.serve_forever()
"""
FAULTS = ("lines-connection", "application-terminal", "lines-kill", "lines-clock")


def settings(day: Day) -> str:
    guard = day.base / "guard.py"
    guard.write_text(GUARD)
    hooks = [
        ("PreToolUse", f"{sys.executable} {guard}", 'matcher = "Write|Edit"'),
        ("SessionStart", "echo No deploys on Fridays.", ""),
        ("Stop", f"cat >> {day.base}/stops", ""),
    ]
    tables = [f"[[hooks]]\nevent = {json.dumps(e)}\ncommand = {json.dumps(c)}\n{more}\n" for e, c, more in hooks]
    args = json.dumps([str(ROOT / "tests/support/mcp/odd_server.py")])
    return "\n".join([*tables, f"[mcp.servers.tracker]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"])


def listens(port: Path) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", int(port.read_text()))) == 0


@story(fronts=TERMINALS, faults=FAULTS)
def test_everything_at_once_and_the_terminal_closes(day: Day) -> None:
    day.repository(serve__py=SERVE, site="", old__html="old\n")
    day.settings(settings(day))
    assert "echo" in day.agent("mcp", "test", "tracker")
    day.model.will(
        says("I file it.", Call("mcp__tracker__echo", {"issue": 7}), sees=("No deploys on Fridays.", "serve the site")),
        says("A helper writes the page.", task("Write about.html, briefly."), sees='{"issue": 7}'),
        says("I write it.", write("about.html", "<h1>About</h1>\n"), sees="Write about.html, briefly."),
    )
    day.begin("serve the site, and file what is missing")
    day.asked("tracker", "issue")
    day.answer("a")
    day.asked("about.html", "<h1>About</h1>")
    day.model.will(
        says("The page is there: about.html."),
        says("And the menu.", write("gen/menu.html", "<ul>\n"), sees="The page is there: about.html."),
        says("Then not. I serve it.", bash("python3 serve.py", run_in_background=True),
             sees="gen/ is generated: change the template"),
    )  # fmt: skip
    day.answer("y")
    day.asked("python3 serve.py")
    day.model.will(
        says("Another note.", Call("mcp__tracker__echo", {"issue": 8}), sees="runs in the background"),
        says("The old page can go.", bash("git rm -q old.html"), sees='{"issue": 8}'),
    )
    day.answer("y")
    day.asked("git rm -q old.html")
    port = day.base / "port"
    day.until(lambda: port.exists() and port.read_text() and listens(port), "the server")

    day.model.will(says("Served, filed, tidied."))
    day.inject_fault("git rm -q old.html")
    assert listens(port) is not day.ends
    day.answer("y")
    day.shows("Served, filed, tidied.")
    assert not (day.work / "old.html").exists()
    assert not (day.work / "gen").exists()

    day.model.will(says("It runs." if not day.ends else "It has ended."))
    day.say("/jobs")
    if isinstance(day.front, Application) and not day.ends:
        front = day.front
        front.until(lambda: "❯ ● b1" in front.visible() and "serve.py" in front.visible(), "the list of jobs")
        front.key("q")
        front.until(lambda: "❯ ● b1" not in front.visible(), "the end of the list")
    day.shows("serve.py" if not day.ends else "no background jobs")
    day.say("and the server?")
    day.shows("It runs." if not day.ends else "It has ended.")
    day.undo(files=2)
    assert (day.work / "old.html").exists()
    assert not (day.work / "about.html").exists()
    day.leave()
    assert not listens(port)
    stop, _ = json.JSONDecoder().raw_decode((day.base / "stops").read_text())
    assert stop["last_assistant_message"] == "Served, filed, tidied."
