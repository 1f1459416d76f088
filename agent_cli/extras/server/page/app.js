// The page: the token, the frame, the routes, the keys, and what the window's title says.

import { ApiError, get, onConnection, onSignedOut, pair, setToken, takeToken } from "./api.js";
import { announce, button, h, icon, parts, replace, template } from "./dom.js";
import { canNotify, notifies, notify, startWorker, toggleNotifications } from "./notify.js";
import { showKeys } from "./panels.js";
import { remember } from "./storage.js";
import { showSchedules } from "./schedules.js";
import { SessionList, Sessions } from "./sessions.js";
import { SessionView } from "./session.js";
import { startTask } from "./start.js";
import { counted, oneLine } from "./text.js";

const THEMES = ["auto", "light", "dark"];
const place = document.getElementById("app");
const status = document.getElementById("status");

let me = null;
let sessions = null;
let list = null;
let view = null;
let main = null;

/** Return a button that is an icon; `words` says what it does now, and `next` what happens when it is pressed. */
function toggle({ drawn, words, pressed, next }) {
  const shown = button(words(), { kind: "quiet", icon: drawn(), bare: true });
  const draw = () => {
    shown.replaceChildren(icon(drawn()));
    shown.title = words();
    shown.setAttribute("aria-label", shown.title);
    if (pressed) shown.setAttribute("aria-pressed", String(pressed()));
  };
  shown.addEventListener("click", async () => {
    const problem = await next();
    draw();
    announce(problem || shown.title);
  });
  draw();
  return shown;
}

function themeButton() {
  const theme = () => document.documentElement.dataset.theme || "auto";
  return toggle({
    drawn: () => ({ auto: "auto", light: "sun", dark: "moon" })[theme()],
    words: () => `Theme: ${{ auto: "as the system", light: "light", dark: "dark" }[theme()]}`,
    next: () => {
      const chosen = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
      if (chosen === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
      remember("agent.theme", chosen);
    },
  });
}

function notifyButton() {
  if (!canNotify) return null;
  return toggle({
    drawn: () => "bell",
    words: () => `Notifications: ${notifies() ? "on" : "off"}`,
    pressed: notifies,
    next: toggleNotifications,
  });
}

/** Show how many sessions wait, in the title and on the icon of the installed app. */
function showCount() {
  const waiting = sessions?.counts.waiting || 0;
  const name = view?.session?.title ? `${oneLine(view.session.title)} · agent` : "agent";
  document.title = waiting ? `(${waiting}) ${name}` : name;
  navigator.setAppBadge?.(waiting).catch(() => {});
  const words = main?.querySelector(".welcome p");
  if (words) words.textContent = welcome();
}

function signIn(message = "") {
  leave();
  replace(place, h("main", { id: "main", class: "center" }, template("sign-in")));
  const [form, field, problem] = ["form", "input", ".problem"].map((one) => place.querySelector(one));
  problem.textContent = message;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = /token=([^&\s]+)/.exec(field.value)?.[1] || field.value;
    if (!given.trim()) {
      problem.textContent = "Paste the token first.";
      return;
    }
    setToken(given);
    begin();
  });
  document.title = "Sign in · agent";
  field.focus();
}

function leave() {
  view?.close();
  view = null;
  sessions?.stop();
  sessions = list = main = null;
}

async function begin() {
  leave();
  replace(place, h("main", { id: "main", class: "center" }, h("p", { class: "hint", role: "status" }, "Connecting…")));
  try {
    me = await get("/v1/me");
    sessions = new Sessions();
    const current = sessions;
    sessions.listeners.add((what, session, before) => {
      if (what === "counts" || what === "session") showCount();
      if (what === "deleted" && session.id === view?.id) location.hash = "#/";
      if (what === "state" && before && ["waiting", "done", "failed"].includes(session.state)) {
        notify(session);
        if (session.state === "waiting" && session.id !== view?.id) announce(`Waiting for you: ${oneLine(session.title)}`);
      }
    });
    await sessions.start();
    if (sessions !== current) return;
    frame();
    startWorker();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) return;
    replace(
      place,
      h("main", { id: "main", class: "center" }, h("div", { class: "form" }, h("h1", {}, "agent"), h("p", { role: "alert" }, error.message), button("Try again", { kind: "primary", on: begin }))),
    );
    if (error.code === "offline") setTimeout(() => !sessions?.stream && begin(), 5000);
  }
}

function frame() {
  const canStart = me.role === "start";
  const start = () => canStart && startTask(sessions, (session) => {
    sessions.take(session);
    location.hash = `#/s/${encodeURIComponent(session.id)}`;
  });
  list = new SessionList(sessions, { start, canStart });
  main = h("div", { class: "main" });
  const top = parts("top");
  top.who.textContent = canStart ? me.name : `${me.name} · ${me.role}`;
  top.who.title = `Signed in as ${me.name}`;
  top.board.addEventListener("click", toggleBoard);
  top.schedules.addEventListener("click", () => showSchedules(sessions, { canStart }));
  top.schedules.after(...[notifyButton(), themeButton()].filter(Boolean));
  top.keys.addEventListener("click", showKeys);
  replace(place, top.element, h("main", { id: "main", class: "columns", tabindex: "-1" }, h("div", { class: "side" }, list.element), main));
  list.start = start;
  route();
  list.load();
  showCount();
}

function route() {
  if (!list) return;
  const board = location.hash === "#/board";
  document.body.classList.toggle("board", board);
  list.setBoard(board);
  const found = /^#\/s\/([^/?]+)/.exec(location.hash);
  const id = found ? decodeURIComponent(found[1]) : "";
  if (view?.id === id && id) return;
  const hadFocus = view && (view.element.contains(document.activeElement) || document.activeElement === document.body);
  const before = view?.id;
  view?.close();
  view = null;
  document.body.classList.toggle("in-session", Boolean(id));
  list.select(id);
  if (id) {
    view = new SessionView(sessions, id, {
      role: me.role,
      startTask: () => list.start(),
      search: find,
      back: () => {
        location.hash = "#/";
      },
    });
    main.replaceChildren(view.element);
    view.title.focus({ preventScroll: true });
  } else {
    main.replaceChildren(h("div", { class: "welcome" }, h("p", {}, welcome())));
    if (hadFocus) list.rows.get(before)?.element.querySelector("a")?.focus();
  }
  showCount();
}

function toggleBoard() {
  location.hash = document.body.classList.contains("board") ? "#/" : "#/board";
}

function welcome() {
  const waiting = sessions.counts.waiting || 0;
  return waiting ? `${counted(waiting, "session")} ${waiting === 1 ? "waits" : "wait"} for you.` : "Choose a session, or start a task.";
}

/** Search the sessions, which a phone shows instead of one. */
function find(words) {
  location.hash = view && matchMedia("(max-width: 899px)").matches ? "#/" : location.hash;
  list.search.value = words;
  list.search.dispatchEvent(new Event("input"));
  list.search.focus();
}

document.addEventListener("keydown", (event) => {
  if (!list || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    if (document.querySelector("dialog[open]")) return;
    if (typing) typing.blur();
    else if (view) location.hash = "#/";
    return;
  }
  if (typing || event.repeat || document.querySelector("dialog[open]")) return;
  if (event.key === "/") find("");
  else if (event.key === "?") showKeys();
  else if (event.key === "n") list.start();
  else if (event.key === "b") toggleBoard();
  else if (list.board && ["h", "ArrowLeft", "l", "ArrowRight"].includes(event.key)) list.across(event.key === "l" || event.key === "ArrowRight" ? 1 : -1);
  else if (event.key === "j") list.step(1);
  else if (event.key === "k") list.step(-1);
  else if (!view?.key(event.key)) return;
  event.preventDefault();
});

onSignedOut((message) => signIn(message));
onConnection((reached) => {
  status.textContent = reached ? "" : "Not connected. Trying again…";
  status.classList.toggle("lost", !reached);
  if (reached) announce("Connected again.");
});
window.addEventListener("hashchange", () => {
  if (/[#&?]token=/.test(location.hash)) {
    takeToken();
    begin();
  } else route();
});

const refused = await pair();
if (takeToken() && !refused) begin();
else signIn(refused);
