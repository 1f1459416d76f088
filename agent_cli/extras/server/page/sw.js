// The service worker: it shows notifications, and a page that says so where the server cannot be reached. It stores nothing.

const OFFLINE = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Offline · agent</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; display: grid; place-items: center } main { max-width: 34em; padding: 24px } h1 { font-size: 20px }</style>
<main><h1>agent serve cannot be reached</h1>
<p>Your sessions are on the computer that runs it, and none of them is stored on this device. Work that has begun continues there.</p>
<p><a href="/">Try again</a></p></main></html>`;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  if (event.request.mode !== "navigate") return;
  const headers = { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY };
  event.respondWith(fetch(event.request).catch(() => new Response(OFFLINE, { status: 503, headers })));
});

const show = ({ title, body, tag, url, approve, ticket }) =>
  self.registration.showNotification(title, {
    body, tag, renotify: true, icon: "/page/icon-192.png", data: { url, ticket },
    actions: ticket ? [{ action: "approve", title: approve }, { action: "open", title: "Open" }] : [],
  });

self.addEventListener("push", (event) => event.waitUntil(show(event.data.json())));

/** Send the ticket of a notification; what became of it replaces the notification. */
async function approve({ tag, data }) {
  let said = "The server cannot be reached. Open the page to decide.";
  try {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch("/v1/push/answer", { method: "POST", headers, body: JSON.stringify({ ticket: data.ticket }), credentials: "omit", cache: "no-store" });
    const found = await answer.json();
    said = answer.ok ? `This was ${found.decided}.` : found.error.message;
  } catch {
    // As `said` has it.
  }
  await show({ title: "agent", body: said, tag, url: data.url });
}

async function open(url) {
  const [found] = await self.clients.matchAll({ type: "window" });
  if (!found) return self.clients.openWindow(url);
  found.postMessage({ open: url });
  return found.focus();
}

self.addEventListener("notificationclick", (event) => {
  const { notification, action } = event;
  notification.close();
  event.waitUntil(action === "approve" ? approve(notification) : open(notification.data.url));
});
