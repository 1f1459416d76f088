// One session: its transcript as it grows, the question that waits, and what the user says to it.

import { ApiError, get, post, query, stream } from "./api.js";
import { announce, button, dialog, h, icon, labelled, toast } from "./dom.js";
import { itemView, todoList } from "./items.js";
import { showChanges, showExport, showUndo, showUsage } from "./panels.js";
import { QuestionPanel } from "./question.js";
import { stateTag } from "./sessions.js";
import { exact } from "./lookalikes.js";
import { costWords, modelName, modeWords, oneLine, shortCount, visible } from "./text.js";
import { Transcript } from "./transcript.js";
import { VirtualList } from "./virtual.js";

const FIRST = 200;
const PAGE = 1000;
// How long a window is hidden until it gives its connection back, in milliseconds; it catches up when it is shown.
const HIDDEN = 60_000;
// How often the answer under way is drawn anew, in milliseconds.
const LIVE = 60;
const PROGRESS = 4000;
const WORDS = { approve: "approved", reject: "rejected", answer: "answered", revise: "sent back", undo: "undone", cancel: "cancelled" };

export class SessionView {
  constructor(sessions, id, { role, back }) {
    this.sessions = sessions;
    this.id = id;
    this.role = role;
    this.mayDecide = role !== "read";
    this.mayStart = role === "start";
    this.records = [];
    this.last = 0;
    this.first = Infinity;
    this.complete = false;
    this.transcript = new Transcript();
    this.mine = new Set();
    this.draftLive = null;
    this.liveRev = 0;
    this.open = new Map();
    this.session = sessions.known.get(id) || null;
    this.base = `/v1/sessions/${encodeURIComponent(id)}`;
    this.view = {
      open: this.open,
      cwd: "",
      redraw: (item) => {
        item.rev += 1;
        this.list.schedule();
      },
    };
    this.list = new VirtualList({
      render: (item) => this.render(item),
      nearTop: () => this.older(),
      followed: (following) => {
        this.jump.hidden = following;
      },
    });
    this.question = new QuestionPanel({ decide: (item, decision) => this.decide(item, decision), may: this.mayDecide, role });
    this.build(back);
    this.seen = () => this.visible();
    document.addEventListener("visibilitychange", this.seen);
    this.load();
  }

  build(back) {
    this.title = h("h1", { class: "session-title", tabindex: "-1" }, this.session ? oneLine(this.session.title) || "Untitled" : "Session");
    this.state = h("span", { class: "session-state" });
    this.facts = h("p", { class: "session-facts" });
    this.buttons = h("div", { class: "session-buttons" });
    this.plan = h("div", { class: "plan-strip", hidden: true });
    this.elsewhere = h("p", { class: "banner", role: "status", hidden: true });
    this.won = h("div", { class: "won", role: "status" });
    this.jump = button("Newest", { kind: "jump", icon: "down", on: () => this.list.follow() });
    this.jump.hidden = true;
    this.composer = this.compose();
    this.queued = h("ul", { class: "queued", hidden: true, "aria-label": "Messages that wait" });
    this.element = h(
      "section",
      { class: "session", "aria-label": "Session" },
      h(
        "header",
        { class: "session-head" },
        button("Back to the sessions", { kind: "quiet back", icon: "back", bare: true, on: back }),
        h("div", { class: "session-names" }, h("div", { class: "session-line" }, this.title, this.state), this.facts),
        this.buttons,
      ),
      this.elsewhere,
      this.plan,
      h("div", { class: "transcript" }, this.list.scroller, this.jump),
      h("div", { class: "dock" }, this.won, this.question.element, this.queued, this.composer),
    );
    if (this.session) this.update(this.session);
  }

  render(item) {
    try {
      return itemView(item, this.view);
    } catch (error) {
      console.error(error);
      return h("article", { class: "item item-note", tabindex: "-1" }, h("p", { class: "note warn" }, "This could not be shown; an export of the session has it."));
    }
  }

  compose() {
    this.message = h("textarea", { rows: "1", placeholder: "Message", "aria-keyshortcuts": "m" });
    this.how = h("select", {}, h("option", { value: "steer" }, "Send now"), h("option", { value: "queue" }, "After this turn"));
    this.howField = labelled("When the model gets it", this.how, { hidden: true });
    this.send = button("Send", { kind: "primary", icon: "send" });
    this.send.type = "submit";
    const form = h("form", { class: "composer" }, labelled("Message", this.message, { hidden: true }), h("div", { class: "composer-line" }, this.howField, this.send));
    this.message.addEventListener("input", () => {
      this.message.rows = Math.min(8, this.message.value.split("\n").length);
    });
    this.message.addEventListener("keydown", (event) => {
      const phone = matchMedia("(pointer: coarse)").matches;
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !phone) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.say();
    });
    if (this.mayStart) return form;
    const note = this.role === "read" ? "see sessions, but not decide or write." : "decide what is asked, but not write messages.";
    return h("p", { class: "hint role-note" }, `Your role is ${this.role}: you can ${note}`);
  }

  async load() {
    try {
      const [session, history] = await Promise.all([get(this.base), get(`${this.base}/history${query({ limit: FIRST })}`)]);
      if (this.closed) return;
      this.update(session);
      this.take(history.events);
      this.last = Math.max(this.last, history.last || 0);
      this.complete = history.events.length === 0 || history.events.length >= history.total;
      this.loaded = true;
      this.draw();
      this.follow();
    } catch (error) {
      if (this.closed) return;
      this.list.scroller.replaceChildren(
        h(
          "div",
          { class: "empty" },
          h("p", { role: "alert" }, error instanceof ApiError ? error.message : "This session could not be shown."),
          button("Try again", {
            on: () => {
              this.list.scroller.replaceChildren(this.list.inner);
              this.load();
            },
          }),
        ),
      );
      if (!(error instanceof ApiError)) throw error;
    }
  }

  follow() {
    this.stream = stream(`${this.base}/events`, {
      after: () => this.last,
      opened: () => {
        // What was being said when the connection broke is sent again from its start, or is a record by now.
        this.draftLive = null;
        this.schedule();
      },
      on: (event, data, id) => {
        if (event === "record") this.record(data, id);
        else if (event === "live") this.live(data);
        else if (event === "session") {
          this.sessions.take(data);
          this.update(data);
        }
      },
    });
  }

  visible() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.stream?.close();
        this.stream = null;
      }, HIDDEN);
    } else if (this.loaded && !this.stream) this.follow();
  }

  /** Add a record from the stream; one that is here already is not taken twice. */
  record(event, id) {
    const seq = event.seq ?? Number(id);
    if (seq <= this.last) return;
    this.last = seq;
    this.records.push(event);
    this.first = Math.min(this.first, seq);
    if (event.type === "MessageAdded" && event.data.message?.type === "AssistantMessage") this.draftLive = null;
    if (event.type === "TurnFinished" || event.type === "ToolRequested") this.draftLive = null;
    this.transcript.add(seq, event.time, event.data);
    this.noticeDecision(event.data);
    this.schedule();
  }

  /** Add records from the history, in any order. */
  take(events) {
    const known = new Set(this.records.map((event) => event.seq));
    const fresh = events.filter((event) => !known.has(event.seq));
    if (!fresh.length) return;
    this.records = [...this.records, ...fresh].sort((a, b) => a.seq - b.seq);
    this.first = this.records[0].seq;
    this.last = Math.max(this.last, this.records.at(-1).seq);
    // Calls and their results may be on different pages, so all is folded again; the keys of the items stay.
    this.transcript = new Transcript();
    for (const event of this.records) this.transcript.add(event.seq, event.time, event.data);
  }

  async older() {
    if (this.complete || this.fetching || !this.loaded) return;
    this.fetching = true;
    this.list.inner.setAttribute("aria-busy", "true");
    try {
      const history = await get(`${this.base}/history${query({ before: this.first, limit: PAGE })}`);
      const before = this.records.length;
      this.take(history.events);
      this.complete = this.records.length === before;
      this.draw();
    } catch {
      // Shown as a lost connection; the next scroll tries again.
    } finally {
      this.fetching = false;
      this.list.inner.removeAttribute("aria-busy");
    }
  }

  live(data) {
    if (data.kind === "tool") {
      const item = this.transcript.calls.get(data.call_id);
      if (item && item.state === "running") {
        item.progress = ((item.progress || "") + data.text).slice(-PROGRESS);
        item.rev += 1;
      }
    } else {
      const now = (this.draftLive ??= { text: "", thinking: "" });
      // The offset counts characters, as Python does: one outside the basic plane is one.
      const points = data.offset ? [...now[data.kind]] : [];
      now[data.kind] = points.slice(0, data.offset).join("") + data.text;
    }
    if (!this.liveTimer) {
      this.liveTimer = setTimeout(() => {
        this.liveTimer = 0;
        this.draw();
      }, LIVE);
    }
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const items = this.transcript.items.slice();
    if (this.draftLive && (this.draftLive.text || this.draftLive.thinking)) {
      items.push({ key: "live", kind: "live", rev: ++this.liveRev, ...this.draftLive });
    } else if (this.session?.state === "running" && items.at(-1)?.state !== "running") {
      items.push({ key: "live", kind: "live", rev: -1, text: "", thinking: "" });
    }
    this.list.set(items);
  }

  update(session) {
    const before = this.session?.state;
    this.session = { ...this.session, ...session };
    const now = this.session;
    this.view.cwd = now.folder || "";
    this.title.textContent = oneLine(now.title) || "Untitled";
    this.state.replaceChildren(stateTag(now));
    const project = this.sessions.project(now.project);
    const window = now.window && now.tokens ? `${shortCount(now.tokens)} of ${shortCount(now.window)} tokens` : "";
    this.facts.textContent = [
      project ? visible(project.name) : "",
      now.branch ? `${exact(now.branch)}${now.worktree ? " (worktree)" : ""}` : "",
      modeWords(now.mode),
      modelName(now.model),
      costWords(now),
      window,
    ].filter(Boolean).join(" · ");
    this.elsewhere.hidden = !(now.elsewhere || (now.error && now.state === "failed"));
    this.elsewhere.textContent = visible(now.elsewhere || now.error || "");
    this.drawButtons();
    this.drawPlan();
    if (now.pending_items) {
      this.question.set(now.state === "waiting" || now.pending_items.length ? now.pending_items : []);
    }
    this.drawQueued();
    if (this.mayStart) {
      const waits = !this.question.element.hidden;
      this.composer.hidden = waits || Boolean(now.elsewhere);
      this.howField.hidden = now.state !== "running";
      this.message.placeholder = now.state === "running" ? "Message to the model" : "What next?";
    }
    if (before && before !== now.state && ["done", "failed", "interrupted"].includes(now.state)) announce(`The session is ${now.state}.`);
    if (this.loaded) this.schedule();
  }

  drawButtons() {
    const { state } = this.session;
    const signature = `${state} ${this.session.elsewhere ? 1 : 0}`;
    if (this.buttons.dataset.for === signature) return;
    const focused = this.buttons.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.buttons.dataset.for = signature;
    const act = (path, label, drawn) =>
      button(label, {
        icon: drawn,
        kind: "act",
        on: async (event) => {
          const pressed = event.currentTarget;
          pressed.disabled = true;
          try {
            await post(`${this.base}/${path}`);
          } catch (error) {
            toast(error.message, "bad");
          }
          pressed.disabled = false;
        },
      });
    const shown = [];
    if (this.mayStart && !this.session.elsewhere) {
      if (state === "running" || state === "queued") shown.push(act("interrupt", "Interrupt", "stop"));
      if (state === "interrupted" || state === "failed") shown.push(act("resume", "Resume", "play"));
    }
    shown.push(this.menu());
    this.buttons.replaceChildren(...shown);
    if (focused) [...this.buttons.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
  }

  menu() {
    return button("More about this session", {
      kind: "quiet",
      icon: "more",
      bare: true,
      "aria-haspopup": "dialog",
      on: () => {
        const pick = (label, show) =>
          button(label, {
            kind: "menu-item",
            on: async () => {
              shown.close();
              // The newest numbers, as far as the server can be reached.
              show(await get(this.base).catch(() => this.session));
            },
          });
        const shown = dialog(
          oneLine(this.session.title) || "Session",
          h(
            "div",
            { class: "menu" },
            pick("Changes", showChanges),
            this.mayStart ? pick("Undo…", showUndo) : null,
            pick("Usage and cost", showUsage),
            pick("Export…", showExport),
          ),
        );
      },
    });
  }

  drawPlan() {
    const plan = this.session.plan || [];
    const signature = JSON.stringify(plan);
    if (this.plan.dataset.for === signature) return;
    this.plan.dataset.for = signature;
    this.plan.hidden = !plan.length;
    const done = plan.filter((step) => step.status === "completed").length;
    const current = plan.find((step) => step.status === "in_progress");
    const wasOpen = this.plan.querySelector("details")?.open;
    const at = document.activeElement === this.plan.querySelector("summary");
    this.plan.replaceChildren(
      h(
        "details",
        { class: "fold", open: wasOpen },
        h(
          "summary",
          {},
          h("span", { class: "plan-count" }, `Plan ${done} of ${plan.length}`),
          h("span", { class: "plan-now" }, current ? visible(current.activeForm || current.content) : done === plan.length ? "complete" : ""),
        ),
        h("div", { class: "fold-body" }, todoList(plan)),
      ),
    );
    if (at) this.plan.querySelector("summary").focus();
  }

  drawQueued() {
    // The message under way is still listed by the server, and stands in the transcript.
    const said = this.transcript.items.findLast((item) => item.kind === "user")?.text;
    const queued = (this.session.queued || []).filter((one) => one.text !== said);
    this.queued.hidden = !queued.length;
    this.queued.replaceChildren(
      ...queued.map((one) => h("li", {}, h("span", { class: "tag" }, one.how === "queue" ? "after this turn" : "with the next step"), " ", visible(oneLine(one.text)))),
    );
  }

  async say() {
    const text = this.message.value.trim();
    if (!text) return;
    this.send.disabled = true;
    try {
      await post(`${this.base}/messages`, { text, how: this.session.state === "running" ? this.how.value : "queue" });
      this.message.value = "";
      this.message.rows = 1;
      this.list.follow();
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      this.send.disabled = false;
      this.message.focus();
    }
  }

  /** Send a decision. Where somebody was faster, or the question has changed, say so and show what is true now. */
  async decide(item, decision) {
    this.mine.add(item.call_id);
    this.won.replaceChildren();
    const kept = document.activeElement;
    try {
      const answer = await post(`${this.base}/decisions`, { call_id: item.call_id, binding: item.binding, ...decision });
      this.question.busy = false;
      this.without(item);
      announce(answer.left ? `Sent. ${answer.left} more to decide.` : "Sent.");
      if (!this.question.element.hidden) this.question.takeFocus();
      else if (this.element.contains(kept) || document.activeElement === document.body) this.title.focus({ preventScroll: true });
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.mine.delete(item.call_id);
      if (error.status === 409 && error.code === "decided") {
        this.tellWon(item, error.details.decided_by, wordOf(error.details.decision));
        this.without(item);
      } else if (error.status === 409 && error.code === "changed") {
        this.tell("This has changed since it was shown; look at it again.", "warn");
        await this.refresh();
      } else {
        toast(error.message, "bad");
      }
      return false;
    }
  }

  without(item) {
    this.update({ pending_items: (this.session.pending_items || []).filter((one) => one.call_id !== item.call_id) });
  }

  async refresh() {
    const { items } = await get(`${this.base}/pending`);
    this.update({ pending_items: items });
  }

  /** A decision of somebody else about what is shown here. */
  noticeDecision(event) {
    let inner = event;
    while (inner.type === "SubagentEvent") inner = inner.event;
    const approval = inner.type === "ApprovalResolved" && inner.by === "person" && inner.decision !== "defer";
    const answer = inner.type === "QuestionAnswered" && inner.verdict !== "defer";
    if (!approval && !answer) return;
    const item = this.question.items.find((one) => one.call_id === inner.call_id);
    if (!item || this.mine.has(inner.call_id)) return;
    this.tellWon(item, inner.user, wordOf(inner.decision || inner.verdict), inner.reason || inner.text);
    this.without(item);
  }

  tellWon(item, who, what, words = "") {
    const name = who ? exact(who) : "Somebody at the terminal";
    const about = item.kind === "approval" ? oneLine(item.summary) : { plan: "the plan", review: "the review", question: "the question" }[item.kind];
    this.tell(`${name} ${what} this first: ${exact(about)}${words ? ` (“${visible(oneLine(words))}”)` : ""}`, "info");
  }

  tell(text, kind) {
    this.won.replaceChildren(
      h(
        "p",
        { class: `won-line ${kind}` },
        icon("warn"),
        h("span", {}, text),
        button("Dismiss", { kind: "quiet small", icon: "cross", bare: true, on: () => this.won.replaceChildren() }),
      ),
    );
  }

  /** Keys of the page that are about this session; returns True for one that was taken. */
  key(key) {
    if (key === "a") this.question.approve();
    else if (key === "r" && !this.question.element.hidden) this.question.reject();
    else if (key === "]" && this.question.items.length > 1) this.question.move(1);
    else if (key === "[" && this.question.items.length > 1) this.question.move(-1);
    else if (key === "m" && this.mayStart && !this.composer.hidden) this.message.focus();
    else if (key === "End") this.list.follow();
    else return false;
    return true;
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.hiding);
    clearTimeout(this.liveTimer);
    cancelAnimationFrame(this.frame);
    this.stream?.close();
    this.list.destroy();
    this.element.remove();
  }
}

function wordOf(decision) {
  if (decision && typeof decision === "object") return wordOf(decision.decision || decision.verdict);
  return WORDS[decision] || decision || "decided";
}
