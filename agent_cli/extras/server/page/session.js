// One session: its transcript as it grows, the question that waits, and what the user says to it.

import { ApiError, get, post, query, stream } from "./api.js";
import { announce, button, dialog, h, icon, menu, parts, toast } from "./dom.js";
import { Feed } from "./feed.js";
import { itemView, todoList } from "./items.js";
import { MessageField } from "./composer.js";
import { archive, change, deleteSession, fork, showChanges, showExport, showHelp, showRecord, showRename, showUndo, showUsage } from "./panels.js";
import { QuestionPanel } from "./question.js";
import { showShip } from "./ship.js";
import { stateTag } from "./sessions.js";
import { oneLine, visible } from "./text.js";
import { View } from "./view.js";

const PAGE = 200;
// How long a window is hidden until it gives its connection back, in milliseconds; it catches up when it is shown.
const HIDDEN = 60_000;
// How often the answer under way is drawn anew, in milliseconds.
const LIVE = 60;
// Changes that come many times a second.
const SMALL = new Set(["text", "thinking", "output", "drawn"]);

export class SessionView {
  constructor(sessions, id, { role, back, startTask, search }) {
    Object.assign(this, { startTask, search, sessions, id, role });
    this.mayStart = role === "start";
    this.entries = new View();
    this.at = "";
    this.liveRev = 0;
    this.plan = [];
    this.mine = new Set();
    this.session = sessions.known.get(id) || null;
    this.base = `/v1/sessions/${encodeURIComponent(id)}`;
    this.view = {
      open: new Map(),
      redraw: (item) => {
        this.entries.touch(item);
        this.schedule();
      },
    };
    this.list = new Feed({
      render: (item) => this.render(item),
      nearTop: () => this.older(),
      followed: (following) => {
        this.jump.hidden = following;
      },
    });
    this.question = new QuestionPanel({ decide: (item, decision) => this.decide(item, decision), may: role !== "read", role });
    this.build(back);
    this.seen = () => this.visible();
    document.addEventListener("visibilitychange", this.seen);
    this.follow();
  }

  build(back) {
    const { back: leave, transcript, dock, ...named } = parts("session");
    Object.assign(this, named);
    leave.addEventListener("click", back);
    this.jump.addEventListener("click", () => this.list.follow());
    transcript.prepend(this.list.scroller);
    this.composer = this.compose();
    this.won.after(this.question.element);
    dock.append(this.composer);
    this.field?.dropOn(this.element);
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
    if (!this.mayStart) {
      const note = this.role === "read" ? "see sessions, but not decide or write." : "decide what is asked, but not write messages.";
      return h("p", { class: "hint role-note" }, `Your role is ${this.role}: you can ${note}`);
    }
    const { element, box, line, ...named } = parts("composer");
    Object.assign(this, named);
    const submit = () => this.say();
    this.field = new MessageField({
      label: "Message", submit, key: `agent.draft.${this.id}`, where: () => ({ session: this.id }), earlier: () => this.earlier(), changed: () => this.drawSend(),
    });
    this.message = this.field.area;
    box.prepend(this.field.element);
    line.prepend(this.field.attach);
    this.mode.addEventListener("click", () => this.chooseMode());
    this.model.addEventListener("click", () => this.chooseModel());
    this.send.addEventListener("click", submit);
    element.addEventListener("submit", (event) => event.preventDefault());
    return element;
  }

  /** What was sent, the newest first. */
  earlier() {
    return this.entries.top.filter((item) => item.kind === "user" && item.text).map((item) => item.text).reverse();
  }

  drawSend() {
    if (this.send) this.send.disabled = Boolean(this.sending || this.field.pending || this.field.empty);
  }

  chooseMode() {
    const modes = this.sessions.modes.map(([mode, words]) => [words, () => change(this.session, { mode }), mode === this.session.mode]);
    menu("Permission mode", modes);
  }

  async chooseModel() {
    try {
      const list = await get(`/v1/models${query({ project: this.session.project })}`);
      const models = list.models.map((one) => [visible(one.words), () => change(this.session, { model: one.name }), one.name === this.session.model]);
      menu("Model, from the next message on", models);
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  changes() {
    const comment = async (comments) => {
      try {
        await post(`${this.base}/messages`, { text: "Comments on the changes:", comments, how: "queue" });
        toast("The comments are sent.");
        return true;
      } catch (error) {
        toast(error.message, "bad");
        return false;
      }
    };
    showChanges(this.session, this.mayStart ? comment : null, () => this.ship());
  }

  ship() {
    showShip(this.session, this.mayStart);
  }

  /** Carry out a command of the page. words: what stands behind it. */
  command(name, words) {
    const { session } = this;
    const set = (what) => change(session, what);
    const known = {
      model: () => (words ? set({ model: words }) : this.chooseModel()),
      mode: () => (words ? set({ mode: words }) : this.chooseMode()),
      plan: () => set({ mode: words === "off" ? "default" : "plan" }),
      todos: () => (this.plan.length ? dialog("Plan", todoList(this.plan)) : toast("There is no plan.")),
      record: () => showRecord(session),
      diff: () => this.changes(),
      commit: () => this.ship(),
      undo: () => showUndo(session),
      continue: () => this.act("resume"),
      cost: () => this.latest().then(showUsage),
      copy: () => [...this.list.inner.querySelectorAll(".answer > .copy")].at(-1)?.click(),
      export: () => showExport(session),
      sessions: () => this.search(words),
      rename: () => (words ? set({ name: words }) : showRename(session)),
      fork: () => fork(session),
      archive: () => archive(session, true),
      delete: () => deleteSession(session),
      stop: () => this.act("interrupt"),
      new: () => this.startTask(),
      help: () => showHelp(session),
    };
    known[name]();
  }

  act(path) {
    return post(`${this.base}/${path}`).catch((error) => toast(error.message, "bad"));
  }

  follow() {
    this.stream = stream(`${this.base}/view/events`, {
      after: () => this.at,
      on: (_, changes, id) => {
        this.at = id || this.at;
        for (const change of changes) this.take(change);
        this.schedule(changes.every(({ type }) => SMALL.has(type)) ? LIVE : 0);
      },
      refused: (error) => {
        this.list.scroller.replaceChildren(h("div", { class: "empty" }, h("p", { role: "alert" }, error.message)));
      },
    });
  }

  take(change) {
    const { type } = change;
    if (type === "session") {
      this.sessions.take(change.session);
      this.update(change.session);
    } else if (type === "pending") {
      this.noticeDecisions(change.items);
      this.question.set(change.items);
      this.drawComposer();
    } else if (type === "plan") {
      this.plan = change.plan;
      this.drawPlan();
    } else this.entries.apply(change);
  }

  visible() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.stream?.close();
        this.stream = null;
      }, HIDDEN);
    } else if (!this.stream) this.follow();
  }

  async older() {
    const { entries } = this;
    if (!entries.first || this.fetching) return;
    this.fetching = true;
    this.list.inner.setAttribute("aria-busy", "true");
    try {
      const { first, changes } = await get(`${this.base}/view${query({ before: entries.first, limit: PAGE })}`);
      entries.older(first, changes);
      this.draw();
    } catch {
      // Shown as a lost connection; the next scroll tries again.
    } finally {
      this.fetching = false;
      this.list.inner.removeAttribute("aria-busy");
    }
  }

  /** Draw in the next frame, or after some milliseconds if a drawing is not due before. */
  schedule(wait = 0) {
    if (wait) this.timer ||= setTimeout(() => this.schedule(), wait);
    else this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.frame = this.timer = 0;
    const { top, draft } = this.entries;
    const items = top.slice();
    if (draft.text || draft.thinking) items.push({ key: "live", kind: "live", rev: ++this.liveRev, ...draft });
    else if (this.session?.state === "running" && top.at(-1)?.status !== "running") items.push({ key: "live", kind: "live", rev: -1, ...draft });
    this.list.set(items);
  }

  update(session) {
    const before = this.session?.state;
    this.session = { ...this.session, ...session };
    const now = this.session;
    this.title.textContent = oneLine(now.title) || "Untitled";
    this.state.replaceChildren(stateTag(now));
    this.facts.textContent = (now.head || now.facts).join(" · ");
    this.elsewhere.hidden = !(now.elsewhere || (now.error && now.state === "failed"));
    this.elsewhere.textContent = visible(now.elsewhere || now.error || "");
    this.drawButtons();
    this.drawQueued();
    this.drawComposer();
    if (before && before !== now.state && ["done", "failed", "interrupted"].includes(now.state)) announce(`The session is ${now.state}.`);
    this.schedule();
  }

  drawComposer() {
    if (!this.mayStart || !this.session) return;
    const { state } = this.session;
    this.composer.hidden = Boolean(this.session.elsewhere);
    this.howField.hidden = state !== "running";
    this.message.placeholder = { running: "Message the model, / for commands, @ for files", waiting: "Message for after the decision" }[state] || "What next? / for commands, @ for files";
    this.mode.lastChild.textContent = this.sessions.modes.find(([mode]) => mode === this.session.mode)?.[1] || "Mode";
    this.model.lastChild.textContent = oneLine(this.session.model).split("/").pop() || "Model";
    this.drawSend();
  }

  drawButtons() {
    const { state, elsewhere } = this.session;
    const signature = `${state} ${elsewhere}`;
    if (this.buttons.dataset.for === signature) return;
    const focused = this.buttons.contains(document.activeElement) ? document.activeElement.textContent : null;
    this.buttons.dataset.for = signature;
    const act = (path, label, drawn) => {
      const shown = button(label, { icon: drawn, kind: "act" });
      shown.addEventListener("click", async () => {
        shown.disabled = true;
        await this.act(path);
        shown.disabled = false;
      });
      return shown;
    };
    const shown = [button("More about this session", { kind: "quiet", icon: "more", bare: true, "aria-haspopup": "dialog", on: () => this.showMenu() })];
    if (this.mayStart && !elsewhere) {
      if (state === "running" || state === "queued") shown.unshift(act("interrupt", "Interrupt", "stop"));
      if (state === "interrupted" || state === "failed") shown.unshift(act("resume", "Resume", "play"));
    }
    this.buttons.replaceChildren(...shown);
    if (focused) shown.find((each) => each.textContent === focused)?.focus();
  }

  /** The newest numbers, as far as the server can be reached. */
  latest() {
    return get(this.base).catch(() => this.session);
  }

  showMenu() {
    const show = (open) => async () => open(await this.latest());
    const choices = [["Changes", () => this.changes()], ["Record", () => showRecord(this.session)], ["Commit and ship…", () => this.ship()], ["Usage and cost", show(showUsage)], ["Export…", show(showExport)]];
    if (this.mayStart) {
      choices.splice(3, 0, ["Undo…", show(showUndo)]);
      const { archived } = this.session;
      choices.push(["Rename…", () => showRename(this.session)], ["Continue in a copy", () => fork(this.session)]);
      choices.push([archived ? "Move out of the archive" : "Archive", () => archive(this.session, !archived)], ["Delete…", () => deleteSession(this.session)]);
    }
    menu(oneLine(this.session.title) || "Session", choices);
  }

  drawPlan() {
    const { plan } = this;
    this.planStrip.hidden = !plan.length;
    const done = plan.filter((step) => step.status === "completed").length;
    const current = plan.find((step) => step.status === "in_progress");
    const wasOpen = this.planStrip.querySelector("details")?.open;
    const at = document.activeElement === this.planStrip.querySelector("summary");
    const now = current ? visible(current.activeForm || current.content) : done === plan.length ? "complete" : "";
    const summary = h("summary", {}, h("span", { class: "plan-count" }, `Plan ${done} of ${plan.length}`), h("span", { class: "plan-now" }, now));
    this.planStrip.replaceChildren(h("details", { class: "fold", open: wasOpen }, summary, h("div", { class: "fold-body" }, todoList(plan), button("Evidence", { on: () => showRecord(this.session) }))));
    if (at) this.planStrip.querySelector("summary").focus();
  }

  drawQueued() {
    const { queued = [] } = this.session;
    this.queued.hidden = !queued.length;
    this.queued.replaceChildren(
      ...queued.map((one) =>
        h(
          "li",
          {},
          h("span", { class: "tag" }, one.how === "queue" ? "after this turn" : "with the next step"),
          h("span", { class: "queued-text" }, visible(oneLine(one.text))),
          this.mayStart && one.how === "queue" ? button("Edit this message", { kind: "quiet small", icon: "cross", bare: true, on: () => this.takeBack(one) }) : null,
        ),
      ),
    );
  }

  /** A message that nobody has read yet becomes a draft again. */
  async takeBack(one) {
    try {
      await post(`${this.base}/messages/${encodeURIComponent(one.id)}`, {}, "DELETE");
      if (this.field.empty) this.field.set(one.text);
      this.message.focus();
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  async say() {
    const { field } = this;
    const { text, uploads } = field;
    if (field.empty || this.sending || field.pending) return;
    this.sending = true;
    this.drawSend();
    try {
      await post(`${this.base}/messages`, { text, uploads, how: this.session.state === "running" ? this.how.value : "queue" });
      field.clear();
      this.list.follow();
    } catch (error) {
      const { name, words } = error.details || {};
      if (name) {
        field.clear();
        this.command(name, words);
      } else toast(error.message, "bad");
    } finally {
      this.sending = false;
      this.drawSend();
      if (!document.querySelector("dialog[open]")) this.message.focus();
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
        this.tellWon(item, error.details.decided_by, error.details.decision);
        this.without(item);
      } else if (error.status === 409 && error.code === "changed") {
        this.tell("This has changed since it was shown; look at it again.", "warn");
      } else {
        toast(error.message, "bad");
      }
      return false;
    }
  }

  /** The question is decided: the next one is shown before the server says so. */
  without(item) {
    this.question.set(this.question.items.filter((one) => one !== item));
  }

  /** Say what somebody else has decided about what is shown here. */
  noticeDecisions(items) {
    const shown = new Set(this.question.items.map((item) => item.call_id));
    const made = items.find((item) => item.decided && shown.has(item.call_id) && !this.mine.has(item.call_id));
    if (made) this.tellWon(made, made.decided_by, made.decided.split(" by ")[0]);
  }

  tellWon(item, who, what) {
    const about = { plan: "the plan", review: "the review", question: "the question" }[item.kind] || oneLine(item.summary);
    this.tell(`${visible(who) || "Somebody at the terminal"} ${what} this first: ${about}`, "info");
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
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.stream?.close();
    this.list.observer.disconnect();
    this.element.remove();
  }
}
