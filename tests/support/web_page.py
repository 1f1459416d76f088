"""`agent serve` as a process, and its page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from agent_cli.kernel.events import Event, SessionNamed
from agent_cli.kernel.session.records import Header
from agent_cli.kernel.session.store import SessionStore
from tests.support.fork_server import start
from tests.support.program import agent, clean_env
from tests.support.repositories import git
from tests.support.scripts import script
from tests.support.served import workers_of
from tests.support.session_logs import log_bytes, session_id

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
PHONE, DESK = (390, 844), (1280, 800)
# Each window would have three processes for pages: one to spare, and the suggestions below an address bar that nobody
# sees. Only the last switch of its kind counts, so what Playwright turns off is named again.
_WITHOUT = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess",
    "AimEnabled", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying",
    "OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning",
)  # fmt: skip
# Chromium's own sandbox needs what root in a container lacks.
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--disable-features={','.join(_WITHOUT)}"]
_SECONDS = 30.0
expect.set_options(timeout=_SECONDS * 1000)


class Served:
    """A server over one project, and the sessions in it."""

    def __init__(self, base: Path, name: str = "work") -> None:
        self.work = base / name
        self.work.mkdir(parents=True)
        (self.work / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 61)))
        (self.work / "b.py").write_text("x = 1\n")
        git(self.work, "init", "-q", ".")
        git(self.work, "add", ".")
        git(self.work, "commit", "-q", "-m", "first")
        self.home = base / "home"
        self.env = clean_env(self.home)
        self._scripts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.token = ""

    def run(self) -> None:
        """Start the server, again on the port that it had."""
        args = ["serve", "--port", str(self.port), "--project", str(self.work)]
        self._process = start(args, self.work, self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdout is not None
        shown = b""
        while b"token" not in shown:
            line = self._process.stdout.readline()
            assert line, shown.decode()
            shown += line
        self.port = self.port or int(re.findall(rb"127\.0\.0\.1:(\d+)", shown)[0])
        if found := re.search(rb"#token=(\S+)", shown):
            self.token = found[1].decode()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def kill(self) -> None:
        """Kill the server as a crash would; its workers go on."""
        assert self._process is not None
        self._process.kill()
        self.stop()

    def workers(self) -> list[int]:
        """The processes of the workers: their errors go to the folders of the tasks."""
        return workers_of(self.home / "state/serve/tasks")

    def named(self, name: str, role: str) -> str:
        """The token of another user."""
        return agent(["serve", "token", "add", name, "--role", role], self.work).stdout.strip()

    def link(self, session: str = "", token: str = "") -> str:
        there = f"/s/{session}&" if session else ""
        return f"http://127.0.0.1:{self.port}/#{there}token={token or self.token}"

    def ask(self, path: str, body: Any = None, token: str = "") -> Any:
        """Answer of the API to a GET, or a POST of `body`; of an error too."""
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", data, headers), timeout=_SECONDS) as answer:
                return json.loads(answer.read())
        except HTTPError as refused:
            return json.loads(refused.read())

    def model(self, replies: list[dict[str, Any]]) -> str:
        self._scripts += 1
        folder = self.home / str(self._scripts)
        folder.mkdir()
        return script(folder / "script", replies)

    def start(self, replies: list[dict[str, Any]], prompt: str = "Do it", state: str = "waiting", **more: Any) -> str:
        """A session that was started with a scripted model, when it has come to a state."""
        project = self.ask("/v1/projects")["projects"][0]["id"]
        body = {"prompt": prompt, "project": project, "model": self.model(replies), **more}
        made = self.ask("/v1/sessions", body)
        assert "id" in made, made
        if state:
            self.until(made["id"], state)
        return str(made["id"])

    def until(self, session: str, state: str) -> dict[str, Any]:
        """The session, when it has come to a state."""
        path = f"/v1/sessions/{session}"
        wait_until(lambda: self.ask(path)["state"] == state, lambda: str(self.ask(path)))
        found: dict[str, Any] = self.ask(path)
        return found

    def put(self, number: int, events: list[Event], name: str = "") -> str:
        """A session whose log is on disk already."""
        path = SessionStore(self.home / "state", self.work).path(session_id(number))
        path.parent.mkdir(parents=True, exist_ok=True)
        place = str(self.work)
        header = Header(session_id(number), place, place, "scripted:x", "You are.", ("Read",), "0")
        path.write_bytes(log_bytes(header, [*events, *([SessionNamed(name)] if name else [])]))
        return session_id(number)


def wait_until(true: Callable[[], bool], what: Callable[[], str] = lambda: "") -> None:
    """Wait until something is true.

    For what a page evaluates, too: `Page.wait_for_function` polls by `eval`, which the page's policy forbids.
    """
    end = time.monotonic() + _SECONDS
    while not true():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def press(page: Page, name: str) -> None:
    """Press a button of the question once the guard against early keys has passed."""
    button = page.locator(".question").get_by_role("button", name=name, exact=True)
    button.wait_for()
    page.wait_for_timeout(700)
    button.click()


def press_more(page: Page, name: str) -> None:
    """Press one of the choices of the question that are not beside it."""
    page.locator(".question").get_by_role("button", name="More choices").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile(f"^{re.escape(name)}")).click()


@contextmanager
def serving(base: Path, name: str = "work") -> Iterator[Served]:
    """A server that runs. name: of the project's folder."""
    served = Served(base, name)
    served.run()
    try:
        yield served
    finally:
        served.stop()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("THE WEB PAGE WAS NOT TESTED: there is no chromium (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class PageUser:
    """A browser window with the page. Its errors are in `faults`."""

    def __init__(self, context: BrowserContext, served: Served, *, session: str = "", token: str = "") -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(_SECONDS * 1000)
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(f"{error.message}\n{error.stack}"))
        self.page.on("console", self._logged)
        self.page.goto(served.link(session, token))

    def _logged(self, message: Any) -> None:
        # A refused request is an answer that the page shows; having no connection is what some tests are about.
        # A window of a test is a private one, which has no push service.
        expected = ("Failed to load resource", "net::ERR", "Push API in incognito mode")
        if message.type == "error" and not any(text in message.text for text in expected):
            self.faults.append(message.text)

    def axe(self) -> list[str]:
        """What axe-core finds."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]


@contextmanager
def reading(
    browser: Browser, served: Served, size: tuple[int, int] = DESK, *, dark: bool = False, worker: bool = False,
    **more: str,
) -> Iterator[PageUser]:  # fmt: skip
    """Open a window, and check at the end that it had no errors.

    worker: whether the page gets its service worker. A request in the moment in which that takes over the page
    can pass by the routes of a test.
    """
    scheme: Any = "dark" if dark else "light"
    phone = size == PHONE
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, has_touch=phone, is_mobile=phone,
        reduced_motion="reduce", locale="en-GB", service_workers="allow" if worker else "block",
    )  # fmt: skip
    try:
        reader = PageUser(context, served, **more)
        yield reader
        assert reader.faults == [], reader.faults
    finally:
        context.close()
