// The list of sessions: those that wait first, searched, filtered and paged.

import { button, h, parts, toast } from "./dom.js";
import { get, query, sharedStream } from "./api.js";
import { ago, oneLine, STATES, visible, whenExactly } from "./text.js";

const RANK = { waiting: 0, running: 1, queued: 2 };
const GROUPS = [["waiting", "Waiting for you", ["waiting"]], ["running", "Running", ["running"]], ["queued", "Queued", ["queued"]], ["", "Earlier", ["interrupted", "failed", "done", "idle"]]];
const FILTERS = ["", "waiting", "running", "queued", "failed", "interrupted", "done", "archived"];
// From so many characters on, a search looks into messages, too.
const DEEP = 3;
const PAGE = 50;

const rank = (session) => RANK[session.state] ?? 3;
const order = (a, b) => rank(a) - rank(b) || (a.updated < b.updated ? 1 : a.updated > b.updated ? -1 : a.id < b.id ? -1 : 1);

/** What is known of all sessions; views listen to it. */
export class Sessions {
  constructor() {
    this.known = new Map();
    this.projects = [];
    this.counts = {};
    this.columns = [];
    this.listeners = new Set();
    this.counting = null;
  }

  async start() {
    await Promise.all([this.reloadProjects(), this.count()]);
    this.stream = sharedStream("/v1/events", {
      on: (event, data) => (event === "deleted" ? this.forget(data) : this.take(data)),
      // What changed while there was no connection is not sent again.
      opened: () => {
        if (this.connected) this.tell("reload");
        this.connected = true;
        this.count().catch(() => {});
      },
    });
  }

  async reloadProjects() {
    const { projects, modes } = await get("/v1/projects");
    Object.assign(this, { projects, modes });
  }

  stop() {
    this.stream?.close();
  }

  project(id) {
    return this.projects.find((project) => project.id === id);
  }

  take(session) {
    const before = this.known.get(session.id);
    this.known.set(session.id, { ...before, ...session });
    if (before?.state !== session.state) this.tell("state", session, before);
    if (before?.state !== session.state || before?.archived !== session.archived) {
      clearTimeout(this.counting);
      this.counting = setTimeout(() => this.count().catch(() => {}), 300);
    }
    this.tell("session", session);
  }

  forget({ id }) {
    if (!this.known.delete(id)) return;
    this.tell("deleted", { id });
    this.count().catch(() => {});
  }

  async count() {
    const { counts, columns, sessions } = await get(`/v1/sessions${query({ limit: 1 })}`);
    for (const session of sessions) this.known.set(session.id, session);
    Object.assign(this, { counts, columns });
    this.tell("counts");
  }

  tell(what, ...more) {
    for (const listener of this.listeners) listener(what, ...more);
  }
}

/** The state of a session as a dot with its word. */
export function stateTag(session) {
  const words = session.state === "waiting" && session.pending > 1 ? `${session.pending} questions` : STATES[session.state] || session.state;
  return h("span", { class: `state ${session.state}` }, words);
}

export class SessionList {
  constructor(sessions, { start, canStart }) {
    this.sessions = sessions;
    this.shown = new Map();
    this.rows = new Map();
    this.filter = { state: "", project: "", query: "" };
    this.cursor = null;
    this.asked = 0;
    this.current = "";
    this.frame = 0;
    const { start: begin, ...named } = parts("sessions");
    Object.assign(this, named);
    this.more.addEventListener("click", () => this.load(true));
    if (canStart) begin.addEventListener("click", start);
    else begin.remove();
    let typing = null;
    this.search.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => this.refilter({ query: this.search.value.trim() }), 200);
    });
    this.project.addEventListener("change", () => this.refilter({ project: this.project.value }));
    sessions.listeners.add((what, session) => this.heard(what, session));
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.cursor && this.load(true), { rootMargin: "400px" }).observe(this.more);
    setInterval(() => this.times(), 30_000);
    this.drawFilters();
  }

  heard(what, session) {
    if (what === "reload") this.load();
    else if (what === "counts") this.drawFilters();
    else if (what === "session" || what === "deleted") {
      if (what === "session" && this.matches(session)) this.shown.set(session.id, session);
      else this.shown.delete(session.id);
      this.schedule();
    }
  }

  matches(session) {
    const { state, project, query: words } = this.filter;
    if ((state === "archived") !== Boolean(session.archived)) return false;
    if ((state && state !== "archived" && session.state !== state) || (project && session.project !== project)) return false;
    // The server's search looks further than the title; what it found stays.
    return !words || this.shown.has(session.id) || (session.title || "").toLowerCase().includes(words.toLowerCase());
  }

  refilter(changes) {
    this.filter = { ...this.filter, ...changes };
    this.drawFilters();
    return this.load();
  }

  /** What the filters ask for; the titles that match are shown before messages are searched. */
  asks(messages) {
    const { state, project, query: words } = this.filter;
    const archived = state === "archived";
    return { project, query: words, state: archived ? "" : state, archived: archived || "", messages: messages || "", limit: PAGE };
  }

  async load(further = false, messages = false) {
    if (further && (this.loading || !this.cursor)) return;
    const turn = ++this.asked;
    this.loading = true;
    this.list.setAttribute("aria-busy", "true");
    try {
      const deep = messages || (further && this.deep);
      const found = await get(`/v1/sessions${query({ ...this.asks(deep), cursor: further ? this.cursor : "" })}`);
      if (turn !== this.asked) return;
      if (!further) this.shown.clear();
      for (const session of found.sessions) {
        this.shown.set(session.id, session);
        this.sessions.known.set(session.id, session);
      }
      this.cursor = found.next;
      this.more.hidden = !this.cursor;
      this.deep = deep;
      this.loaded = deep || this.filter.query.length < DEEP;
      this.draw();
    } catch (error) {
      if (error.code !== "offline") toast(error.message, "bad");
    } finally {
      if (turn === this.asked) {
        this.loading = false;
        this.list.removeAttribute("aria-busy");
        if (!messages && !further && this.filter.query.length >= DEEP) this.load(false, true);
      }
    }
  }

  drawFilters() {
    const { projects, counts } = this.sessions;
    if (this.project.options.length !== projects.length + 1) {
      this.project.replaceChildren(h("option", { value: "" }, "All projects"), ...projects.map((project) => h("option", { value: project.id }, visible(project.name))));
      this.project.value = this.filter.project;
      this.projects.hidden = projects.length < 2;
    }
    const focused = this.states.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    const chips = FILTERS.filter((state) => !state || counts[state] || state === this.filter.state).map((state) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(this.filter.state === state),
          dataset: { state },
          on: { click: () => this.refilter({ state }) },
        },
        state ? STATES[state] || "Archived" : "All",
        state ? h("span", { class: "count" }, ` ${counts[state]?.toLocaleString("en") ?? 0}`) : null,
      ),
    );
    this.states.replaceChildren(...chips);
    this.states.hidden = chips.length < 2;
    if (focused !== null) chips.find((chip) => chip.dataset.state === focused)?.focus();
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const sorted = [...this.shown.values()].sort(order);
    const focused = document.activeElement?.closest?.(".row")?.dataset.id;
    const parts = [];
    const columns = this.sessions.columns.map(({ title, states }) => [states[0], title, states]);
    for (const [state, title, states] of this.board ? columns : GROUPS) {
      const group = sorted.filter((session) => states.includes(session.state));
      if (!group.length && !this.board) continue;
      parts.push(
        h(
          "section",
          { class: `group ${state || "earlier"}` },
          h("h2", {}, title, state ? h("span", { class: "count" }, ` ${group.length}`) : null),
          h("ul", {}, group.map((session) => this.row(session))),
        ),
      );
    }
    for (const id of this.rows.keys()) if (!this.shown.has(id)) this.rows.delete(id);
    if (!parts.length && this.loaded) parts.push(this.empty());
    this.list.replaceChildren(...parts);
    if (focused) this.rows.get(focused)?.element.querySelector("a").focus({ preventScroll: true });
  }

  empty() {
    const { state, project, query: words } = this.filter;
    if (!state && !project && !words) return h("p", { class: "empty" }, "No sessions yet. Start a task, or run ", h("code", {}, "agent"), " in one of the projects.");
    return h(
      "div",
      { class: "empty" },
      h("p", {}, "No session matches."),
      button("Clear the filters", {
        kind: "quiet",
        on: () => {
          this.search.value = this.project.value = "";
          this.refilter({ state: "", project: "", query: "" });
        },
      }),
    );
  }

  row(session) {
    const signature = JSON.stringify([session, this.current === session.id]);
    const known = this.rows.get(session.id);
    if (known?.signature === signature) return known.element;
    const title = oneLine(session.title) || "Untitled";
    const note = session.excerpt || session.asks || session.error || session.elsewhere;
    const element = h(
      "li",
      { class: `row ${session.state}`, dataset: { id: session.id } },
      h(
        "a",
        { href: `#/s/${encodeURIComponent(session.id)}`, "aria-current": this.current === session.id ? "page" : undefined },
        h("span", { class: "row-title" }, title),
        h("span", { class: "row-line" }, stateTag(session), h("time", { datetime: session.updated, title: whenExactly(session.updated) }, ago(session.updated))),
        note ? h("span", { class: "row-note" }, visible(oneLine(note))) : null,
        h("span", { class: "row-facts" }, session.facts.join(" · ")),
      ),
    );
    this.rows.set(session.id, { element, signature });
    return element;
  }

  times() {
    for (const time of this.list.querySelectorAll("time")) time.textContent = ago(time.dateTime);
  }

  select(id) {
    this.current = id;
    this.schedule();
  }

  /** Show the sessions side by side by state, or as a list. */
  setBoard(on) {
    this.board = on;
    this.schedule();
  }

  /** Move the focus on the board to the first row of the next column that has one. */
  across(by) {
    const groups = [...this.list.querySelectorAll(".group")].filter((group) => group.querySelector(".row"));
    const at = groups.findIndex((group) => group.contains(document.activeElement));
    groups[Math.max(0, Math.min(groups.length - 1, at + by))]?.querySelector(".row a").focus();
  }

  /** Move the focus by rows. */
  step(by) {
    const links = [...this.list.querySelectorAll(".row a")];
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const from = at >= 0 ? at : links.findIndex((link) => link.getAttribute("aria-current"));
    const next = links[Math.max(0, Math.min(links.length - 1, from < 0 ? 0 : from + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}
