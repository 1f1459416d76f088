"""Show the sessions of the running agent serve by state, and approve, reject, steer, stop or attach to one.

It has the sessions and questions of the page, from the same server.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from agent_cli import UsageError
from agent_cli.cli.app import AsJson
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_json
from agent_cli.extras.server.app import read_last_link
from agent_cli.extras.server.guard import AccessTokenStore
from agent_cli.extras.server.questions import form_lines
from agent_cli.kernel.session.store import state_folder
from agent_tools.base import ToolError
from agent_tools.cancel import CancelToken
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.text import counted, escape_controls, one_line, parse_number, shorten

app = typer.Typer(add_completion=False)
_COLUMNS = (
    ("Waiting for you", ("waiting",)), ("Running", ("running", "queued")), ("Stopped", ("interrupted", "failed")),
    ("Done", ("done", "idle")),
)  # fmt: skip
_HELP = (
    "NUMBER: show  a NUMBER: approve  r NUMBER WHY: reject  s NUMBER TEXT: send  x NUMBER: stop  "
    "o NUMBER: open here  q: quit"
)
_MAX_DONE = 10


@app.command(epilog=examples("agent board", "agent board --json"))
def board(
    as_json: AsJson = False,
    once: Annotated[bool, typer.Option("--once", help="Print the board, and ask for nothing.")] = False,
) -> int:
    state = state_folder(os.environ)
    link = read_last_link(state)
    if not link:
        raise UsageError("No agent serve runs here. Start it in another terminal: agent serve")
    tokens, name = AccessTokenStore(state), f"board {os.getpid()}"
    client = _ServerClient(link, tokens.add(name, "start"))
    attached: dict[str, Any] | None = None
    try:
        if as_json:
            print_json(client.sessions())
            return 0
        listed = _print_board(client.sessions())
        while not once and sys.stdin.isatty():
            try:
                words = input("\n? for help> ").strip()
            except (EOFError, KeyboardInterrupt):
                break
            if words == "q":
                break
            if words.startswith("o "):
                attached = _attached(_chosen(listed, words[2:].strip()))
                if attached is not None:
                    break
                continue
            _act(client, listed, words)
            if not words[:1].isdigit() and words != "?":
                listed = _print_board(client.sessions())
    finally:
        tokens.revoke(name)
    if attached is not None:
        os.chdir(attached["folder"])
        os.execv(sys.executable, [sys.executable, "-m", "agent_cli", "--resume", attached["id"]])
    return 0


def _attached(session: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a session that can be opened here; say why one cannot."""
    if session is not None and session["state"] in ("running", "queued"):
        echo("The server is at work on it. Wait until it is done, or stop it (x).")
        return None
    if session is not None and session["elsewhere"]:
        echo(escape_controls(f"{session['elsewhere']} Close it there first."))
        return None
    return session


def _chosen(listed: list[dict[str, Any]], number: str) -> dict[str, Any] | None:
    """Return the session with a number; say so if there is none."""
    if number.isdigit() and 1 <= parse_number(number) <= len(listed):
        return listed[parse_number(number) - 1]
    echo(f"There is no session {number or 'without a number'}.")
    return None


class _ServerClient:
    """Requests to the server. Every failure is a UsageError."""

    def __init__(self, link: str, token: str) -> None:
        self._link, self._token = link.rstrip("/"), token
        self._web = WebClient(WebLimits(timeout=20.0), os.environ, None, CancelToken())

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the answer to a GET, or to a POST of `body`."""
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            reply = self._web.send(split_url(f"{self._link}{path}"), headers, data)
        except ToolError as error:
            raise UsageError(f"agent serve at {self._link} does not answer: {error}") from None
        try:
            answer = json.loads(reply.body)
        except ValueError:
            raise UsageError(f"{self._link} answered {reply.status}, which agent serve does not.") from None
        if not 200 <= reply.status < 300:
            raise UsageError(escape_controls(one_line(str(answer.get("error", {}).get("message", reply.status)))))
        return answer

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions, those that wait first."""
        found: list[dict[str, Any]] = self.ask("/v1/sessions?limit=200")["sessions"]
        return found


def _print_board(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print the sessions by state; return them in the order of their numbers."""
    shown: list[dict[str, Any]] = []
    for title, states in _COLUMNS:
        group = [each for each in sessions if each["state"] in states]
        if not group:
            continue
        more = len(group) - _MAX_DONE if title == "Done" else 0
        echo(f"\n{title} ({len(group)})")
        for each in group[:_MAX_DONE] if more > 0 else group:
            shown.append(each)
            asks = f"  {each['asks']}" if each["asks"] else ""
            facts = " · ".join(each["facts"])
            echo(escape_controls(f"{len(shown):3}  {shorten(one_line(each['title']), 60)}  {facts}{asks}"))
        if more > 0:
            echo(f"     and {more} more")
    if not shown:
        echo("There are no sessions.")
    return shown


def _act(client: _ServerClient, listed: list[dict[str, Any]], words: str) -> None:
    """Do what a line asks for; say why it could not be done."""
    verb, _, rest = words.partition(" ")
    number, _, text = (words, "", "") if verb.isdigit() else rest.strip().partition(" ")
    if not words:
        return
    if verb not in ("a", "r", "s", "x") and not verb.isdigit():
        echo(_HELP)
        return
    if (session := _chosen(listed, number)) is None:
        return
    path = f"/v1/sessions/{session['id']}"
    try:
        if verb == "s":
            client.ask(f"{path}/messages", {"text": text, "how": "steer"})
        elif verb == "x":
            client.ask(f"{path}/interrupt", {})
        else:
            _decide(client, path, verb, text)
    except UsageError as error:
        echo(str(error))


def _decide(client: _ServerClient, path: str, verb: str, text: str) -> None:
    """Show what waits in a session, and decide about it."""
    items = [item for item in client.ask(f"{path}/pending")["items"] if "decided" not in item]
    if not items:
        echo("Nothing waits for a decision there.")
        return
    item = items[0]
    for line in form_lines(item["form"]):
        echo(escape_controls(line))
    if len(items) > 1:
        echo(f"{counted(len(items) - 1, 'question')} more")
    if verb.isdigit():
        return
    if verb == "a" and input("Approve exactly this? [y/N] ").strip().lower() != "y":
        return
    verdict = {"a": "approve", "r": "reject"}[verb]
    body = {"call_id": item["call_id"], "binding": item["binding"], "verdict": verdict, "text": text}
    answer = client.ask(f"{path}/decisions", body)
    echo(escape_controls(f"{answer['decided'][:1].upper()}{answer['decided'][1:]}."))
