"""Push on the page: asked for, shown by the service worker, answered there; and the page without its server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.support.push_service import Browser as Device
from tests.support.push_service import PushServer
from tests.support.scripts import bash
from tests.support.web_page import PHONE, Served, reading, serving, wait_until

# A browser without a push service of its own: the subscription is that of a device of the test.
SUBSCRIBES = """
(made) => {
  let known = null;
  const { endpoint } = made;
  const unsubscribe = async () => { known = null; };
  const subscription = { endpoint, unsubscribe, toJSON: () => ({ endpoint, keys: made }) };
  PushManager.prototype.getSubscription = async () => known;
  PushManager.prototype.subscribe = async (options) => { window.asked = options; return (known = subscription); };
}
"""
SHOWN = """
async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(
  ({ title, body, actions }) => ({ title, body, actions: actions.map(({ action }) => action) }))
"""
CLICKS = """
async (action) => {
  const [notification] = await self.registration.getNotifications();
  self.dispatchEvent(new NotificationEvent("notificationclick", { notification, action }));
}
"""


def _deliver(page: Page, message: dict[str, Any]) -> None:
    """Hand a message to the service worker, as the browser's connection to its push service does."""
    session = page.context.new_cdp_session(page)
    versions: list[dict[str, Any]] = []
    session.on("ServiceWorker.workerRegistrationUpdated", lambda event: versions.extend(event["registrations"]))
    session.send("ServiceWorker.enable")
    wait_until(lambda: bool(page.evaluate("1") and versions))
    origin = page.evaluate("location.origin")
    given = {"origin": origin, "registrationId": versions[0]["registrationId"], "data": json.dumps(message)}
    session.send("ServiceWorker.deliverPushMessage", given)


def _says(page: Page, text: str) -> None:
    """Wait until one notification is shown, with this text."""
    wait_until(lambda: [text in one["body"] for one in page.evaluate(SHOWN)] == [True])


def test_a_push_is_asked_for_shown_and_answered(browser: Browser, tmp_path: Path) -> None:
    with PushServer(tmp_path) as push:
        served = Served(tmp_path)
        served.env["SSL_CERT_FILE"] = str(push.certificate)
        push.allow(served.home)
        served.run()
        try:
            device = Device(push)
            with reading(browser, served, PHONE, worker=True) as reader:
                page = reader.page
                page.context.grant_permissions(["notifications"])
                expect(page.get_by_role("button", name="Notifications: off")).to_be_visible()
                page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
                page.evaluate(SUBSCRIBES, device.subscription())
                page.get_by_role("button", name="Notifications: off").click()
                expect(page.get_by_role("button", name="Notifications: on")).to_be_visible()
                wait_until(lambda: served.ask("/v1/push")["subscribed"])
                assert page.evaluate("asked") == {
                    "userVisibleOnly": True,
                    "applicationServerKey": served.ask("/v1/push")["key"],
                }
                session = served.start([bash("touch one"), bash("touch two"), {"text": "Ok."}], "Touch it")
                _, message = device.receive()
                _deliver(page, message)
                wait_until(lambda: bool(page.evaluate(SHOWN)))
                (shown,) = page.evaluate(SHOWN)
                assert shown["title"] == "Waiting for you: Touch it" and "touch one" in shown["body"]
                assert shown["actions"] == ["approve", "open"]
                (worker,) = page.context.service_workers
                worker.evaluate(CLICKS, "approve")
                _says(page, "This was approved by owner.")
                _, second = device.receive()
                assert "touch two" in second["body"]
                # A second answer decides nothing.
                _deliver(page, message)
                _says(page, "touch one")
                worker.evaluate(CLICKS, "approve")
                _says(page, "was answered")
                assert served.ask(f"/v1/sessions/{session}")["state"] == "waiting"
                # What is touched elsewhere opens the page at the question.
                _deliver(page, second)
                _says(page, "touch two")
                page.evaluate("navigator.serviceWorker.dispatchEvent(new MessageEvent('message', "
                              f"{{ data: {{ open: {json.dumps(second['url'])} }} }}))")  # fmt: skip
                expect(page.locator(".question").get_by_text("touch two")).to_be_visible()
                page.get_by_role("button", name="Back to the sessions").click()
                page.get_by_role("button", name="Notifications: on").click()
                wait_until(lambda: not served.ask("/v1/push")["subscribed"])
                assert page.evaluate("caches.keys()") == []
        finally:
            served.stop()


def test_the_page_says_that_the_server_cannot_be_reached_and_shows_no_session(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        session = served.start([{"text": "A secret answer."}], "Say it", "done")
        with reading(browser, served, (360, 640), session=session, worker=True) as reader:
            page = reader.page
            expect(page.get_by_text("A secret answer.")).to_be_visible()
            page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
            served.stop()
            page.goto(f"http://127.0.0.1:{served.port}/#/s/{session}")
            page.reload()
            expect(page.get_by_role("heading", name="agent serve cannot be reached")).to_be_visible()
            assert "secret" not in page.content()
            served.run()
            page.get_by_role("link", name="Try again").click()
            expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
