// Notifications: by push, also while the page is closed, and by the page itself where a browser has no push.

import { get, post } from "./api.js";
import { oneLine } from "./text.js";
import { recall, remember } from "./storage.js";

const KEY = "agent.notify";
const TITLES = { waiting: "Waiting for you", failed: "Failed" };
// The only script that may be loaded by its address.
const policy = window.trustedTypes?.createPolicy("agent", { createScriptURL: () => "/page/sw.js" });

export const canNotify = "Notification" in window && window.isSecureContext;
export const notifies = () => canNotify && ["page", "push"].includes(recall(KEY)) && Notification.permission === "granted";
let registration = null;

/** Start the service worker: without it the page works, but is not installed and gets no push. */
export async function startWorker() {
  if (registration || !navigator.serviceWorker) return;
  navigator.serviceWorker.addEventListener("message", ({ data }) => {
    if (data.open) location.hash = data.open.slice(1);
  });
  try {
    registration = await navigator.serviceWorker.register(policy?.createScriptURL("") ?? "/page/sw.js", { scope: "/" });
    await navigator.serviceWorker.ready;
    if (notifies()) await subscribe();
  } catch (error) {
    console.info(error.message);
  }
}

/** Have the server push to this browser. */
async function subscribe() {
  const { pushManager } = registration;
  const { key, subscribed } = await get("/v1/push");
  const known = await pushManager.getSubscription();
  if (known && subscribed) return remember(KEY, "push");
  const made = known || (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }));
  const { endpoint, keys } = made.toJSON();
  await post("/v1/push", { endpoint, p256dh: keys.p256dh, auth: keys.auth });
  return remember(KEY, "push");
}

async function unsubscribe() {
  const { pushManager } = registration;
  const known = await pushManager.getSubscription();
  if (!known) return;
  await post("/v1/push", { endpoint: known.endpoint, on: false });
  await known.unsubscribe();
}

/** Turn notifications on or off; returns why that was not possible, "" if it was. */
export async function toggleNotifications() {
  const wanted = !notifies();
  if (wanted && Notification.permission !== "granted") await Notification.requestPermission();
  remember(KEY, wanted ? "page" : "");
  if (wanted && !notifies()) return "This browser does not allow notifications here.";
  try {
    await (wanted ? subscribe() : unsubscribe());
  } catch {
    if (wanted) return "This browser has no push service here: notifications come while the page is open.";
  }
  return "";
}

/** Say on this device what became of a session, unless a push does. */
export function notify(session) {
  if (!notifies() || recall(KEY) === "push" || !document.hidden) return;
  const title = TITLES[session.state] || "Done";
  const shown = new Notification(title, { body: oneLine(session.title) || "A session", tag: session.id, icon: "/page/favicon.svg" });
  shown.onclick = () => {
    window.focus();
    location.hash = `#/s/${encodeURIComponent(session.id)}`;
    shown.close();
  };
}
