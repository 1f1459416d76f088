"""Show the sessions of the running agent serve by state, and approve, reject, message, stop or attach to one.

It has the sessions, columns and questions of the page, from the same server. On a terminal it is a live screen;
anywhere else it prints the board.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Annotated, Any

import typer

from agent_cli import Config, UsageError, find_environment, read_settings
from agent_cli.cli.app import AsJson
from agent_cli.cli.help import examples
from agent_cli.console import echo, print_json
from agent_cli.extras.server.app import read_last_link
from agent_cli.extras.server.guard import AccessTokenStore
from agent_cli.extras.server.questions import form_lines
from agent_cli.kernel.run_environment import is_dumb
from agent_cli.kernel.session.store import state_folder
from agent_tools.base import ToolError
from agent_tools.cancel import CancelToken
from agent_tools.lazy import lazy_imports
from agent_tools.net.urls import split_url
from agent_tools.net.web_client import WebClient, WebLimits
from agent_tools.text import counted, escape_controls, one_line

with lazy_imports():
    from agent_cli.shells.terminal import repl
    from agent_cli.shells.terminal.app import key_guard, view_screen
    from agent_cli.shells.terminal.dialogs import model, view

app = typer.Typer(add_completion=False)
# Seconds between looks at the server.
_LOOK_SECONDS = 1.0
_NAME = "terminal"
# Messages to the thread besides actions.
_LOOK, _END = True, False
_MARKS = {"waiting": ("●", "ask"), "running": ("●", "accent"), "failed": ("✗", "bad"), "done": ("✓", "good")}
_STEPS = {"completed": "✓", "in_progress": "▸"}


@app.command(epilog=examples("agent board", "agent board --json"))
def board(
    as_json: AsJson = False,
    once: Annotated[bool, typer.Option("--once", help="Print the board, and ask for nothing.")] = False,
) -> int:
    state = state_folder(os.environ)
    _, link = read_last_link(state)
    if not link:
        raise UsageError("No agent serve runs here. Start it in another terminal: agent serve")
    run_env = find_environment(os.environ)
    screen = repl.LineScreen(read_settings(Config(), run_env, []).settings(), run_env.home)
    tokens = AccessTokenStore(state)
    # It stands in the transcript as the name of who decided.
    name = _NAME if all(token.name != _NAME for token in tokens.all()) else f"{_NAME} {os.getpid()}"
    client = _ServerClient(link, tokens.add(name, "start"))
    attached: dict[str, Any] | None = None
    try:
        if as_json:
            print_json(client.page()["sessions"])
            return 0
        live = _Board(client)
        if once or not (sys.stdin.isatty() and sys.stdout.isatty()) or is_dumb(os.environ):
            for line in live.view.printed(view.PRINTED_COLUMNS):
                echo(line.plain)
            return 0
        attached = live.run(screen.colors.palette)
    finally:
        tokens.revoke(name)
    if attached is not None:
        os.chdir(attached["folder"])
        os.execv(sys.executable, [sys.executable, "-m", "agent_cli", "--resume", attached["id"]])
    return 0


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

    def page(self) -> dict[str, Any]:
        """Return the sessions, those that wait first, and the columns of the board."""
        found: dict[str, Any] = self.ask("/v1/sessions?limit=200")
        return found


class _Board:
    """The board as it is now. A thread looks at the server, and does what the keys ask for."""

    def __init__(self, client: _ServerClient) -> None:
        self._client = client
        # Actions, which return what they came to; and _LOOK and _END.
        self._asked: SimpleQueue[Callable[[], str] | bool] = SimpleQueue()
        self._details: dict[str, dict[str, Any]] = {}
        # The session whose details were asked for last.
        self._wanted = self._note = ""
        # When each question was first drawn.
        self._drawn: dict[str, float] = {}
        self._page = client.page()
        self.view = self._make()
        self.state = view.ViewState(self.view)

    def run(self, palette: Any) -> dict[str, Any] | None:
        """Show the board until the user leaves; return the session to open here."""
        thread = threading.Thread(target=self._work, name="board", daemon=True)
        thread.start()
        chosen = view_screen.show_alone(self.state, palette, self._act)
        self._asked.put(_END)
        thread.join(_LOOK_SECONDS)
        found: dict[str, Any] | None = chosen.value if chosen is not None else None
        return found

    # On the thread.

    def _work(self) -> None:
        """Look at the server again and again, and at once after an action."""
        while True:
            try:
                act = self._asked.get(timeout=_LOOK_SECONDS)
                if act is _END:
                    return
                if callable(act):
                    self._note = act()
            except Empty:
                pass
            except UsageError as error:
                self._note = str(error)
            try:
                self._look()
            except UsageError as error:
                self._note = str(error)
            self.view = self._make()

    def _look(self) -> None:
        page, wanted = self._client.page(), self._wanted
        if any(each["id"] == wanted for each in page["sessions"]):
            self._details[wanted] = self._client.ask(f"/v1/sessions/{wanted}")
        self._page = page

    def _make(self) -> Any:
        """Return the view; the same one as before if nothing has changed."""
        items = []
        for column in self._page["columns"]:
            group = [each for each in self._page["sessions"] if each["state"] in column["states"]]
            section = f"{column['title']} ({len(group)})"
            items += [self._item(each, section, column["states"][0]) for each in group]
        return view.View(
            "Board", items=tuple(items), empty="There are no sessions.", whole=False, note=self._note,
            actions=(
                view.ViewAction("a", "approve", lambda at: self._can_approve(items[at])),
                view.ViewAction("a", "answer", lambda at: _kind(items[at]) == "question", asks="Answer"),
                view.ViewAction("r", "reject", lambda at: bool(_kind(items[at])), asks="Why not"),
                view.ViewAction("s", "message", asks="Message"),
                view.ViewAction("x", "stop", lambda at: items[at].value["state"] in ("running", "queued")),
                view.ViewAction("o", "open here"),
            ),
            renew=self._renew,
        )  # fmt: skip

    def _can_approve(self, item: Any) -> bool:
        return _kind(item) not in ("", "question")

    def _item(self, session: dict[str, Any], section: str, column: str) -> Any:
        mark, style = _MARKS.get(column, ("■", "warn"))
        if session["state"] in _MARKS:
            mark, style = _MARKS[session["state"]]
        known = self._details.get(session["id"])
        # A session that has gone on since its details were read is shown without them.
        if known is not None and (known["updated"], known["state"]) != (session["updated"], session["state"]):
            known = None
        about = " · ".join(filter(None, (*session["facts"], session["asks"] or session["error"])))
        value = session | {"waiting": _undecided(known)}

        def detail(width: int) -> Sequence[Any]:
            for waiting in value["waiting"][:1]:
                self._drawn.setdefault(waiting["binding"], time.monotonic())
            return _detail_lines(session, known, width)

        title = one_line(session["title"]) or "Untitled"
        return view.ViewItem(
            title, one_line(about), f"{mark} {title}  {one_line(about)}", mark, style, section, detail, live=True,
            key=session["id"], value=value,
        )  # fmt: skip

    # On the drawing thread.

    def _renew(self) -> Any:
        """Return the view as it is now; ask for the details of the session that is chosen."""
        index = self.state.index
        chosen = self.state.view.items[index].key if index >= 0 else ""
        if chosen and chosen != self._wanted:
            self._wanted = chosen
            self._asked.put(_LOOK)
        return self.view

    def _act(self, chosen: Any) -> bool:
        """Take an action; return True if it leaves the board."""
        session, path = chosen.value, f"/v1/sessions/{chosen.value['id']}"
        if chosen.key == "o":
            if session["state"] not in ("running", "queued") and not session["elsewhere"]:
                return True
            self._say(session["elsewhere"] or "The server is at work on it: wait until it is done, or stop it.")
        elif chosen.key == "x":
            self._send(f"{path}/interrupt", {}, "Stopped.")
        elif chosen.key == "s":
            self._send(f"{path}/messages", {"text": chosen.text, "how": "steer"}, "Sent.")
        elif item := next(iter(session["waiting"]), None):
            self._decide(chosen, path, item)
        return False

    def _decide(self, chosen: Any, path: str, item: dict[str, Any]) -> None:
        """Send a decision about a question. One is approved only after it was shown whole."""
        now = time.monotonic()
        if not chosen.text and not chosen.opened:
            self.state.show_detail()
            self._drawn[item["binding"]] = now
        if not chosen.text and now - self._drawn.get(item["binding"], now) < guard_seconds(item):
            return
        kinds = ("yes",) if chosen.key == "a" else ("ask", "no")
        choices = item["form"]["choices"]
        choice = next(each for kind in kinds for each in choices if each["kind"] == kind)
        body = {"call_id": item["call_id"], "binding": item["binding"], **choice["decision"]}
        if chosen.text:
            body["text"] = chosen.text

        def send() -> str:
            answer = self._client.ask(f"{path}/decisions", body)
            left = f" {counted(answer['left'], 'question')} left." if answer["left"] else ""
            done = str(answer["decided"]).partition(" by ")[0]
            return f"{done[:1].upper()}{done[1:]}: {one_line(chosen.value['title'])}.{left}"

        self._asked.put(send)

    def _send(self, path: str, body: dict[str, Any], note: str) -> None:
        def send() -> str:
            self._client.ask(path, body)
            return note

        self._asked.put(send)

    def _say(self, note: str) -> None:
        self._asked.put(lambda: note)


def guard_seconds(item: dict[str, Any]) -> float:
    """Return for how long a question has to be shown before a key is meant for it."""
    return key_guard.GRAVE_SECONDS if item["form"]["grave"] else model.GUARD_SECONDS


def _undecided(detail: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [item for item in (detail or {}).get("pending_items", ()) if "decided" not in item]


def _kind(item: Any) -> str:
    """Return what waits in a session: "approval", "plan", ...; "" for nothing that can be decided here."""
    waiting = item.value["waiting"]
    if not waiting:
        return ""
    several = len(waiting[0]["form"]["blocks"][0].get("questions", ())) > 1 if waiting[0]["form"]["blocks"] else False
    return "" if several else str(waiting[0]["kind"])


def _detail_lines(session: dict[str, Any], detail: dict[str, Any] | None, width: int) -> Sequence[Any]:
    """Return what a session is doing: the question that waits, its plan, its last answer."""
    if detail is None:
        return view.prose_lines(" · ".join(session["facts"]), width, "dim")
    lines = view.prose_lines(" · ".join(detail["head"]), width, "dim")
    for trouble in filter(None, (session["error"], session["elsewhere"])):
        lines += view.prose_lines(trouble, width, "warn")
    waiting = _undecided(detail)
    for text in form_lines(waiting[0]["form"]) if waiting else ():
        sign = text.strip()[:1]
        lines += view.prose_lines(text, width, {"+": "add", "-": "del", "!": "warn"}.get(sign, ""))
    if len(waiting) > 1:
        lines += view.prose_lines(f"\n{counted(len(waiting) - 1, 'more question')}", width, "dim")
    for at, step in enumerate(detail["plan"]):
        lines += view.prose_lines(f"{'' if at else chr(10)}{_STEPS.get(step['status'], '○')} {step['content']}", width)
    for at, line in enumerate(detail["agents"]):
        lines += view.prose_lines(f"{'' if at else chr(10)}◦ {one_line(line)}", width)
    for message in detail["queued"]:
        lines += view.prose_lines(f"\nqueued: {one_line(message['text'])}", width, "dim")
    if detail["answer"]:
        lines += view.prose_lines(f"\n{detail['answer']}", width)
    return lines
