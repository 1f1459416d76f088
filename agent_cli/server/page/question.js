// The question: what waits for a decision, with everything to decide it, and the choices of the terminal.

import { announce, append, button, copyButton, dialog, h, icon, labelled } from "./dom.js";
import { changeCount, fileView, patchView } from "./diff.js";
import { codeBlock, markdown } from "./markdown.js";
import { filesOf } from "./transcript.js";
import { exact, exactLine, ruleWords } from "./lookalikes.js";
import { counted, MODES, oneLine, relative, visible, whenExactly } from "./text.js";

// A key or a click right after a question appears was meant for something else.
export const GUARD = 600;
const VERBS = { read: "Reads", write: "Writes", fetch: "Fetches", call: "Calls" };
const NOTHING_MORE = ["exactly this command", "every change to", "every reading of"];
const SECTIONS = { steps: "Steps", files_to_create: "Files to create", files_to_modify: "Files to modify", commands: "Commands", dependencies: "Dependencies", tests: "Tests" };

/** Return what a question is about, on one line. */
export function headline(item) {
  if (item.kind === "plan") return "Approve the plan";
  if (item.kind === "review") return oneLine(item.review?.title || "Review the changes");
  if (item.kind === "question") return oneLine(item.questions?.[0]?.question || "A question");
  return exactLine(item.summary);
}

const FIELDS = ".question-body :is(input, textarea), .question-foot :is(input, textarea)";

/**
 * Return what puts the focus into the same field of a question that is drawn anew, and true if it did; null without one.
 * What is typed next would else be keys, and one of them allows.
 */
function fieldInFocus(element) {
  const field = document.activeElement;
  const at = [...element.querySelectorAll(FIELDS)].indexOf(field);
  if (at < 0) return null;
  const { selectionStart: start, selectionEnd: end } = field;
  return (drawn) => {
    const again = drawn.querySelectorAll(FIELDS)[at];
    again?.focus({ preventScroll: true });
    if (typeof start === "number") again?.setSelectionRange?.(start, end);
    return Boolean(again);
  };
}

export class QuestionPanel {
  /** decide: sends a decision and resolves to true if it was taken. may: the role may decide. */
  constructor({ decide, may, role }) {
    this.decide = decide;
    this.may = may;
    this.role = role;
    this.items = [];
    this.at = 0;
    this.shown = "";
    this.shownAt = 0;
    this.busy = false;
    this.drafts = new Map();
    this.element = h("section", { class: "question", "aria-label": "Waiting for you", hidden: true });
  }

  get item() {
    return this.items[this.at];
  }

  /** Show these questions; what the reader has begun to answer stays while it is the same question. */
  set(items) {
    const current = this.item;
    this.items = items.filter((item) => !item.decided);
    const same = current ? this.items.findIndex((item) => item.call_id === current.call_id) : -1;
    this.at = same >= 0 ? same : Math.min(this.at, Math.max(0, this.items.length - 1));
    const signature = this.item ? `${this.item.call_id} ${this.item.binding} ${this.items.length} ${this.at}` : "";
    if (signature === this.shown) return;
    const fresh = this.item && this.item.call_id !== current?.call_id;
    this.shown = signature;
    this.draw();
    if (fresh) {
      this.shownAt = performance.now();
      announce(`Waiting for you: ${headline(this.item)}`);
    }
  }

  guarded() {
    return this.busy || performance.now() - this.shownAt < GUARD;
  }

  move(by) {
    this.at = (this.at + by + this.items.length) % this.items.length;
    this.shown = `${this.item.call_id} ${this.item.binding} ${this.items.length} ${this.at}`;
    this.shownAt = performance.now();
    this.draw();
    this.element.querySelector(".question-title")?.focus({ preventScroll: true });
  }

  draw() {
    const { item } = this;
    this.element.hidden = !item;
    const focused = this.element.contains(document.activeElement);
    const writing = item && this.drawn === item.call_id ? fieldInFocus(this.element) : null;
    this.drawn = item?.call_id;
    this.element.replaceChildren();
    if (!item) return;
    const form = { approval: Approval, question: Questions, plan: Plan, review: Review }[item.kind] || Approval;
    this.form = new form(this, item);
    const body = h("div", { class: "question-body", tabindex: "0", role: "group", "aria-label": "What is asked" }, this.form.body());
    append(this.element, [
      this.head(item),
      body,
      this.may ? h("div", { class: "question-foot" }, this.form.foot()) : h("p", { class: "hint question-foot" }, `Your role is ${this.role}: you can see this, and somebody else decides.`),
    ]);
    if (writing?.(this.element)) return;
    if (focused) this.element.querySelector(".question-title").focus({ preventScroll: true });
  }

  /** Move the focus to the title, unless the reader has begun to write here. */
  takeFocus() {
    if (!fieldInFocus(this.element)) this.element.querySelector(".question-title")?.focus({ preventScroll: true });
  }

  head(item) {
    const several = this.items.length > 1;
    return h(
      "div",
      { class: "question-head" },
      h(
        "div",
        { class: "question-words" },
        h("h2", { class: "question-title", tabindex: "-1" }, this.form.title()),
        this.form.about() ? h("p", { class: "about" }, this.form.about()) : null,
        item.agent ? h("p", { class: "about" }, visible(`For sub-agent ${item.agent}${item.agent_task ? `: ${oneLine(item.agent_task)}` : ""}`)) : null,
      ),
      several
        ? h(
            "div",
            { class: "stepper" },
            button("Previous question", { kind: "quiet small", icon: "back", bare: true, on: () => this.move(-1) }),
            h("span", {}, `${this.at + 1} of ${this.items.length}`),
            button("Next question", { kind: "quiet small next", icon: "back", bare: true, on: () => this.move(1) }),
          )
        : null,
    );
  }

  /** Send a decision; the buttons are off until the server has answered. */
  async send(decision) {
    if (this.guarded()) return;
    const { item } = this;
    this.busy = true;
    this.element.classList.add("busy");
    this.element.setAttribute("aria-busy", "true");
    try {
      if (await this.decide(item, decision)) this.drafts.delete(item.call_id);
    } finally {
      this.busy = false;
      this.shownAt = performance.now();
      this.element.classList.remove("busy");
      this.element.removeAttribute("aria-busy");
    }
  }

  /** The words that go with an answer; they stay when the question is drawn anew. */
  words(label, placeholder = "") {
    const area = h("textarea", { rows: "1", placeholder, class: "words", value: this.drafts.get(this.item.call_id) || "" });
    const { call_id: id } = this.item;
    area.addEventListener("input", () => {
      this.drafts.set(id, area.value);
      area.rows = Math.min(5, area.value.split("\n").length);
    });
    // A no is sent with the words; a yes needs its button, so that it is never sent by accident.
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.text) this.form.refuse();
    });
    this.area = area;
    return labelled(label, area, { hidden: true });
  }

  get text() {
    return (this.area?.value || "").trim();
  }

  /** The key for yes. */
  approve() {
    if (this.may && this.item && !this.guarded()) this.form.approve?.();
  }

  /** The key for no: the words first, as a rejection without them helps nobody. */
  reject() {
    if (!this.may || !this.item) return;
    this.area?.focus();
  }
}

function warnings(list) {
  return list?.length
    ? h("ul", { class: "warnings", "aria-label": "Warnings" }, list.map((text) => h("li", {}, icon("warn"), h("span", {}, exact(text)))))
    : null;
}

function more(title, ...children) {
  return h("details", { class: "fold facts" }, h("summary", {}, title), h("div", { class: "fold-body" }, children));
}

class Approval {
  constructor(panel, item) {
    this.panel = panel;
    this.item = item;
    this.runs = (item.effects || []).filter((effect) => effect.kind === "run").map((effect) => effect.target);
    this.command = this.runs.length === 1 && /^Run\b/.test(item.summary || "");
    this.chosen = new Set((item.hunks || []).map((hunk) => hunk.index));
  }

  title() {
    return this.command ? "Run a command" : exactLine(this.item.summary);
  }

  about() {
    const { description } = this.item;
    return this.command && typeof description === "string" ? visible(oneLine(description)) : "";
  }

  body() {
    const { item } = this;
    const written = new Set(item.effects?.filter((effect) => effect.kind === "write").map((effect) => effect.target));
    const named = (item.effects || []).filter(
      (effect) => VERBS[effect.kind] && !(effect.kind === "read" && written.has(effect.target)) &&
        !item.summary?.includes(effect.target) && !item.summary?.includes(relative(effect.target, item.cwd)),
    );
    return [
      this.runs.map((command) => {
        this.shownCommand = h("div", { class: "command-block" }, codeBlock(exact(command), "bash"));
        return this.shownCommand;
      }),
      named.length ? h("ul", { class: "effects" }, named.map((effect) => h("li", {}, `${VERBS[effect.kind]} ${exact(relative(effect.target, item.cwd))}`))) : null,
      item.hunks?.length > 1 ? this.hunks() : filesOf(item.preview).map((file) => fileView({ ...file, path: relative(file.path, item.cwd) }, { all: true })),
      this.otherPreview(),
      this.unshown(),
      warnings(item.warnings),
      more("Details", this.facts()),
    ];
  }

  /** What neither a command, a path nor a diff says is in the arguments: what cannot be seen cannot be approved. */
  unshown() {
    const { item } = this;
    if (this.runs.length || filesOf(item.preview).length) return null;
    const given = Object.entries(item.arguments || {});
    return given.length
      ? h("dl", { class: "arguments" }, given.map(([name, value]) => [h("dt", {}, visible(name)), h("dd", {}, exact(typeof value === "string" ? value : JSON.stringify(value, null, 2)))]))
      : null;
  }

  otherPreview() {
    const { preview } = this.item;
    if (!preview || filesOf(preview).length) return null;
    const text = preview.text || preview.output || (preview.lines || []).join("\n");
    return text ? codeBlock(exact(text), "") : null;
  }

  hunks() {
    const { hunks } = this.item;
    return h(
      "fieldset",
      { class: "hunks" },
      h("legend", {}, `${counted(hunks.length, "change")}: untick what should not be applied`),
      hunks.map((hunk, place) => {
        const path = relative(hunk.path, this.item.cwd);
        const box = h("input", { type: "checkbox", checked: true, disabled: !this.panel.may, on: { change: () => this.choose(hunk.index, box.checked, shown) } });
        const plus = hunk.patch.split("\n").filter((line) => /^\+(?!\+\+ )/.test(line)).length;
        const minus = hunk.patch.split("\n").filter((line) => /^-(?!-- )/.test(line)).length;
        const shown = h(
          "div",
          { class: "hunk" },
          h("label", { class: "check" }, box, h("span", { class: "path" }, `${exact(path)}, change ${place + 1}`), changeCount(plus, minus)),
          patchView(hunk.patch, path, { all: true }),
        );
        return shown;
      }),
    );
  }

  choose(index, on, shown) {
    if (on) this.chosen.add(index);
    else this.chosen.delete(index);
    shown.classList.toggle("skipped", !on);
    this.label();
  }

  label() {
    const all = this.item.hunks?.length || 0;
    const part = all > 1 && this.chosen.size < all;
    this.yes.lastChild.textContent = part ? `Allow ${this.chosen.size} of ${all} changes` : "Allow once";
    const none = part && !this.chosen.size;
    for (const choice of [this.yes, ...this.always]) choice.disabled = none;
  }

  facts() {
    const { item } = this;
    const targets = (item.effects || []).filter((effect) => effect.kind === "read" || effect.kind === "write");
    const rows = [
      item.reason ? ["Why it asks", `It ${visible(item.reason)}`] : null,
      item.cwd ? ["Folder", exact(item.cwd)] : null,
      item.always ? ["“Always” adds", exact(item.always)] : null,
      item.grants && !NOTHING_MORE.some((start) => item.grants.startsWith(start)) ? ["which allows", exact(item.grants)] : null,
      item.exact ? ["“Exactly” adds", exact(item.exact)] : null,
      item.request ? ["Request", visible(item.request)] : null,
      item.said ? ["The model said", visible(item.said)] : null,
      item.asked_at ? ["Asked", whenExactly(item.asked_at)] : null,
    ];
    return [
      h("dl", { class: "facts-list" }, rows.filter(Boolean).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
      item.facts?.length || targets.length
        ? h("ul", { class: "effects" }, (item.facts || []).map((fact) => h("li", {}, exact(fact))), targets.map((effect) => h("li", {}, `${VERBS[effect.kind]} ${exact(effect.target)}`)))
        : null,
    ];
  }

  foot() {
    const { item, panel } = this;
    this.yes = button("Allow once", { kind: "primary", "aria-keyshortcuts": "a", on: () => this.approve() });
    this.always = [];
    const always = (label, more) => {
      const shown = button(label, { on: () => this.approve(more) });
      this.always.push(shown);
      return shown;
    };
    const choices = [
      this.yes,
      button("Reject", { kind: "danger", "aria-keyshortcuts": "r", on: () => this.refuse() }),
      item.edits && !this.command ? always("Allow all edits this session", { mode: "acceptEdits" }) : null,
      item.always ? always(`Always allow ${ruleWords(item.always, item.cwd)}`, { rule: item.always, scope: "session" }) : null,
      item.can_save && panel.role === "start" ? always(`Always in this project${item.save_trusts ? ", trusting it" : ""}: ${ruleWords(item.always, item.cwd)}`, { rule: item.always, scope: "project" }) : null,
      item.exact ? always(`Always exactly ${ruleWords(item.exact, item.cwd)}`, { rule: item.exact, scope: "session" }) : null,
      panel.role === "start" && this.command && typeof item.arguments?.command === "string" ? button("Edit", { kind: "quiet", on: (event) => this.edit(event.currentTarget) }) : null,
    ];
    const words = panel.words("Your comment", "Add a comment (optional)");
    return [words, h("div", { class: "choices" }, choices)];
  }

  refuse() {
    this.panel.send({ verdict: "reject", text: this.panel.text || undefined });
  }

  edit(opener) {
    const area = h("textarea", { rows: "4", class: "code", value: this.item.arguments.command, spellcheck: "false" });
    this.editor = area;
    this.shownCommand.replaceChildren(labelled("Command to run instead", area));
    opener.remove();
    area.focus();
  }

  /** Send the approval with everything that the reader chose. more: the fields of a choice besides plain yes. */
  approve(more = {}) {
    if (this.yes.disabled) return;
    const { item, panel } = this;
    const part = (item.hunks?.length || 0) > 1 && this.chosen.size < item.hunks.length;
    const edited = this.editor && this.editor.value !== item.arguments.command;
    panel.send({
      verdict: "approve",
      text: panel.text || undefined,
      hunks: part ? [...this.chosen].sort((a, b) => a - b) : undefined,
      arguments: edited ? { ...item.arguments, command: this.editor.value } : undefined,
      ...more,
    });
  }
}

class Questions {
  constructor(panel, item) {
    this.panel = panel;
    this.item = item;
    this.fields = [];
  }

  title() {
    return this.item.questions.length > 1 ? counted(this.item.questions.length, "question") : visible(this.item.questions[0].question);
  }

  about() {
    return this.item.said ? oneLine(this.item.said).slice(0, 300) : "";
  }

  body() {
    return this.item.questions.map((asked, place) => {
      const options = asked.options || [];
      const own = h("textarea", { rows: "1", placeholder: options.length ? "Or answer in your own words" : "Your answer", disabled: !this.panel.may });
      const name = `answer-${this.item.call_id}-${place}`;
      const boxes = options.map((option) => h("input", { type: asked.multiSelect ? "checkbox" : "radio", name, value: option.label, disabled: !this.panel.may }));
      this.fields.push({ boxes, own, asked });
      own.addEventListener("input", () => {
        own.rows = Math.min(6, own.value.split("\n").length);
        if (!asked.multiSelect && own.value.trim()) for (const box of boxes) box.checked = false;
        this.label();
      });
      for (const box of boxes) {
        box.addEventListener("change", () => {
          if (!asked.multiSelect) own.value = "";
          this.label();
        });
      }
      return h(
        "fieldset",
        { class: "asked" },
        h("legend", { class: this.item.questions.length > 1 ? "" : "hidden-text" }, visible(asked.question)),
        options.map((option, index) =>
          h(
            "label",
            { class: "option" },
            boxes[index],
            h("span", {}, h("span", { class: "option-label" }, visible(option.label)), option.description ? h("span", { class: "option-more" }, visible(option.description)) : null),
          ),
        ),
        asked.multiSelect ? h("p", { class: "hint" }, "You may choose several.") : null,
        labelled(options.length ? "Your own words" : "Your answer", own, { hidden: true }),
      );
    });
  }

  answers() {
    return this.fields.map(({ boxes, own }) => {
      const ticked = boxes.filter((box) => box.checked).map((box) => box.value);
      if (own.value.trim()) ticked.push(own.value.trim());
      return ticked.join(", ");
    });
  }

  label() {
    this.yes.disabled = this.answers().some((answer) => !answer);
  }

  foot() {
    this.yes = button(this.item.questions.length > 1 ? "Send answers" : "Send answer", { kind: "primary", disabled: true, on: () => this.approve() });
    return h("div", { class: "choices" }, this.yes, button("Skip", { kind: "quiet", on: () => this.panel.send({ verdict: "reject" }) }));
  }

  approve() {
    if (!this.yes.disabled) this.panel.send({ verdict: "answer", answers: this.answers() });
  }
}

/** A plan as markdown: its text, then its lists; steps that the text has already are not repeated. */
function planView(plan) {
  const flat = oneLine(plan.plan || "");
  const lists = Object.entries(SECTIONS).filter(([name]) => plan[name]?.length && !(name === "steps" && plan.steps.every((step) => flat.includes(oneLine(step)))));
  return h(
    "div",
    { class: "plan" },
    markdown(plan.plan || ""),
    lists.map(([name, title]) => [
      h("h3", {}, title),
      h(name === "steps" ? "ol" : "ul", {}, plan[name].map((text) => h("li", {}, name === "steps" || name === "tests" ? visible(text) : h("code", {}, exact(text))))),
    ]),
  );
}

/** Send a plan or a review back with the words; without them, ask for them. */
function askForWords(panel) {
  if (panel.text) {
    panel.send({ verdict: "answer", text: panel.text });
    return;
  }
  panel.area.focus();
  announce("Say what to change.");
}

class Plan {
  constructor(panel, item) {
    this.panel = panel;
    this.item = item;
  }

  title() {
    return "Approve this plan?";
  }

  about() {
    if (this.item.expired) return "This plan has expired; ask for a new one.";
    return this.item.expires_at ? `Expires ${whenExactly(this.item.expires_at)}` : "";
  }

  body() {
    this.shown = planView(this.item.plan);
    return [this.shown, this.item.request ? more("Request", h("p", {}, visible(this.item.request))) : null];
  }

  foot() {
    const { panel } = this;
    this.mode = h(
      "select",
      {},
      h("option", { value: "" }, "Ask before changes"),
      h("option", { value: "acceptEdits" }, MODES.acceptEdits),
    );
    const words = panel.words("Your comment", "What to change, or a comment");
    return [
      words,
      h(
        "div",
        { class: "choices" },
        h("div", { class: "with-mode" }, button("Approve", { kind: "primary", "aria-keyshortcuts": "a", on: () => this.approve() }), labelled("Mode for the work", this.mode, { hidden: true })),
        button("Request changes", { "aria-keyshortcuts": "r", on: () => this.refuse() }),
        panel.role === "start" ? button("Edit plan", { kind: "quiet", on: (event) => this.edit(event.currentTarget) }) : null,
        button("Cancel the task", { kind: "danger", on: () => panel.send({ verdict: "reject" }) }),
      ),
    ];
  }

  refuse() {
    askForWords(this.panel);
  }

  edit(opener) {
    this.editor = h("textarea", { rows: "14", class: "code", value: this.item.plan.plan });
    this.lists = Object.keys(SECTIONS)
      .filter((name) => this.item.plan[name]?.length)
      .map((name) => [name, h("textarea", { rows: String(Math.min(8, this.item.plan[name].length + 1)), class: "code", value: this.item.plan[name].join("\n") })]);
    this.shown.replaceChildren(labelled("Plan", this.editor), ...this.lists.map(([name, area]) => labelled(`${SECTIONS[name]}, one a line`, area)));
    opener.remove();
    this.editor.focus();
  }

  approve() {
    const { item, panel } = this;
    let plan;
    if (this.editor) {
      plan = { ...item.plan, plan: this.editor.value };
      for (const [name, area] of this.lists) plan[name] = area.value.split("\n").map((line) => line.trim()).filter(Boolean);
    }
    panel.send({ verdict: "approve", text: panel.text || undefined, mode: this.mode.value || undefined, plan });
  }
}

class Review {
  constructor(panel, item) {
    this.panel = panel;
    this.item = item;
  }

  title() {
    return headline(this.item);
  }

  about() {
    return "";
  }

  body() {
    const { review } = this.item;
    const files = review.diffs || [];
    return [
      review.steps?.length ? [h("h3", {}, "Done"), h("ul", {}, review.steps.map((step) => h("li", {}, visible(step))))] : null,
      files.length
        ? files.map((file) => fileView({ ...file, path: relative(file.path, this.item.cwd || "") }))
        : (review.files || []).map((file) => h("div", { class: "file-head" }, h("span", { class: "path" }, exact(file.path)), changeCount(file.added, file.removed))),
      !(review.files || []).length && !files.length ? h("p", { class: "hint" }, "No file was changed by the tools for files.") : null,
      review.commands?.length ? [h("h3", {}, "Commands that ran"), h("ul", {}, review.commands.map((command) => h("li", {}, h("code", {}, exact(command)))))] : null,
    ];
  }

  foot() {
    const { panel } = this;
    const words = panel.words("Your comment", "What to change, or a comment");
    return [
      words,
      h(
        "div",
        { class: "choices" },
        button("Continue", { kind: "primary", "aria-keyshortcuts": "a", on: () => this.approve() }),
        button("Request changes", { "aria-keyshortcuts": "r", on: () => this.refuse() }),
        button("Undo this", { on: () => this.undo() }),
        button("End here", { kind: "danger", on: () => panel.send({ verdict: "reject" }) }),
      ),
    ];
  }

  refuse() {
    askForWords(this.panel);
  }

  undo() {
    const { panel } = this;
    const text = panel.text || undefined;
    const asked = dialog("Undo these changes?", h("p", {}, "The files are restored to their state before this part of the work."), {
      actions: [
        button("Cancel", { on: () => asked.close() }),
        button("Undo this", {
          kind: "danger",
          on: () => {
            asked.close();
            panel.send({ verdict: "undo", text });
          },
        }),
      ],
    });
  }

  approve() {
    this.panel.send({ verdict: "approve", text: this.panel.text || undefined });
  }
}
