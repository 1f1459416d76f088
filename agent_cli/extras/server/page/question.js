// What waits for a decision: the server's form of it, with everything to decide it, and the choices of the terminal.

import { announce, append, button, confirmed, h, icon, labelled, menu } from "./dom.js";
import { LineComments } from "./comments.js";
import { fileView, hunkPicker } from "./diff.js";
import { codeBlock, drawn, markdown } from "./drawn.js";
import { counted, visible } from "./text.js";

// A key or a click right after a question appears was meant for something else.
const GUARD = 600;
const FIELDS = ".question-body :is(input, textarea, .line), .question-foot :is(input, textarea)";

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
    this.notes = new Map();
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
    if (this.signature() === this.shown) return;
    const fresh = this.item && this.item.call_id !== current?.call_id;
    this.draw();
    if (fresh) {
      this.shownAt = performance.now();
      announce(`Waiting for you: ${visible(this.item.form.title)}`);
    }
  }

  signature() {
    return this.item ? `${this.item.call_id} ${this.item.binding} ${this.items.length} ${this.at}` : "";
  }

  guarded() {
    return this.busy || performance.now() - this.shownAt < GUARD;
  }

  move(by) {
    this.at = (this.at + by + this.items.length) % this.items.length;
    this.shownAt = performance.now();
    this.draw();
    this.takeFocus();
  }

  draw() {
    const { item } = this;
    this.shown = this.signature();
    this.element.hidden = !item;
    const focused = this.element.contains(document.activeElement);
    const writing = item && this.drawn === item.call_id ? fieldInFocus(this.element) : null;
    this.drawn = item?.call_id;
    this.element.replaceChildren();
    if (!item) return;
    this.hunks = this.answers = this.edited = null;
    if (!this.notes.has(item.call_id)) this.notes.set(item.call_id, new LineComments());
    this.comments = this.may && item.form.comment ? this.notes.get(item.call_id) : null;
    const body = h("div", { class: "question-body", tabindex: "0", role: "group", "aria-label": "What is asked" }, this.body(item.form));
    append(this.element, [
      this.head(item.form),
      body,
      this.may ? this.foot(item.form) : h("p", { class: "hint question-foot" }, `Your role is ${this.role}: you can see this, and somebody else decides.`),
    ]);
    this.label();
    if (!writing?.(this.element) && focused) this.takeFocus();
  }

  /** Move the focus to the title, unless the reader has begun to write here. */
  takeFocus() {
    if (!fieldInFocus(this.element)) this.element.querySelector(".question-title")?.focus({ preventScroll: true });
  }

  head(form) {
    const step = (label, by, kind = "") => button(label, { kind: `quiet small ${kind}`, icon: "back", bare: true, on: () => this.move(by) });
    return h(
      "div",
      { class: "question-head" },
      h(
        "div",
        { class: "question-words" },
        h("h2", { class: "question-title", tabindex: "-1" }, visible(form.title)),
        form.about.map((text) => h("p", { class: "about" }, visible(text))),
      ),
      this.items.length > 1
        ? h("div", { class: "stepper" }, step("Previous question", -1), h("span", {}, `${this.at + 1} of ${this.items.length}`), step("Next question", 1, "next"))
        : null,
    );
  }

  body(form) {
    const draw = {
      command: (block) => h("pre", { class: "command-block", tabindex: "0", "aria-label": "Command" }, drawn(block.drawn)),
      text: ({ text }) => codeBlock(visible(text), ""),
      markdown: (block) => markdown(block.drawn),
      list: ({ title, items }) => [title ? h("h3", {}, title) : null, h("ul", { class: "effects" }, items.map((text) => h("li", {}, visible(text))))],
      rows: ({ rows }) => h("dl", { class: "arguments" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      files: ({ files }) => files.map((file) => fileView(file, { all: true, comments: this.comments })),
      hunks: ({ files }) => this.hunksOf(files),
      questions: ({ questions }) => this.questionsOf(questions),
    };
    this.subject = h("div", { class: "subject" }, form.blocks.map((block) => draw[block.type](block)));
    return [
      form.warnings.length
        ? h("ul", { class: "warnings", "aria-label": "Warnings" }, form.warnings.map((text) => h("li", {}, icon("warn"), h("span", {}, visible(text)))))
        : null,
      this.subject,
      form.facts.length
        ? h("details", { class: "fold facts" }, h("summary", {}, "Details"), h("ul", { class: "effects fold-body" }, form.facts.map((fact) => h("li", {}, visible(fact)))))
        : null,
    ];
  }

  hunksOf(files) {
    const { element, chosen } = hunkPicker(files, {
      legend: `${counted(files.length, "change")}: untick what should not be applied`,
      comments: this.comments, disabled: !this.may, changed: () => this.label(),
    });
    this.hunks = chosen;
    return element;
  }

  questionsOf(questions) {
    const fields = questions.map((asked, place) => this.questionOf(asked, place, questions.length > 1));
    this.answers = () => fields.map((field) => field.answer());
    return fields.map((field) => field.element);
  }

  questionOf(asked, place, several) {
    const options = asked.options || [];
    const more = asked.multiSelect;
    const own = h("textarea", { rows: "1", placeholder: options.length ? "Or answer in your own words" : "Your answer", disabled: !this.may });
    const name = `answer-${this.item.call_id}-${place}`;
    const boxes = options.map((option) => h("input", { type: more ? "checkbox" : "radio", name, value: option.label, disabled: !this.may }));
    const row = (option, box) =>
      h("label", { class: "option" }, box, h("span", {}, h("span", { class: "option-label" }, visible(option.label)), option.description ? h("span", { class: "option-more" }, visible(option.description)) : null));
    const element = h(
      "fieldset",
      { class: "asked" },
      h("legend", { class: several ? "" : "hidden-text" }, visible(asked.question)),
      options.map((option, index) => row(option, boxes[index])),
      more ? h("p", { class: "hint" }, "You may choose several.") : null,
      labelled(options.length ? "Your own words" : "Your answer", own, { hidden: true }),
    );
    element.addEventListener("input", (event) => {
      own.rows = Math.min(6, own.value.split("\n").length);
      if (!more && event.target !== own) own.value = "";
      else if (!more && own.value.trim()) for (const box of boxes) box.checked = false;
      this.label();
    });
    const answer = () => [...boxes.filter((box) => box.checked).map((box) => box.value), own.value.trim()].filter(Boolean).join(", ");
    return { element, answer };
  }

  foot(form) {
    const mayStart = this.role === "start";
    this.choices = form.choices
      .filter((choice) => mayStart || !choice.starts)
      .map((offered) => {
        const kind = { yes: "primary", no: "danger" }[offered.kind] || "";
        const choice = { ...offered, button: button(offered.label, { kind, on: () => this.choose(choice) }) };
        return choice;
      });
    const yes = this.find("yes");
    const no = this.find("ask") || this.find("no");
    const others = this.choices.filter((choice) => choice !== yes && choice !== no);
    const edit = form.edit && mayStart ? [["Edit", () => this.edit(form.edit)]] : [];
    const rest = [...others.map((choice) => [choice.label, () => this.choose(choice)]), ...edit];
    return h(
      "div",
      { class: "question-foot" },
      form.comment ? this.words(form.comment) : null,
      h("div", { class: "choices" }, yes.button, no.button, rest.length ? button("More choices", { kind: "rest", icon: "more", bare: true, "aria-haspopup": "dialog", on: () => menu("More choices", rest) }) : null),
    );
  }

  /** The comment that goes with an answer; it stays when the question is drawn anew. */
  words(placeholder) {
    const { call_id: id } = this.item;
    this.area = h("textarea", { rows: "1", placeholder, class: "words", value: this.drafts.get(id) || "" });
    this.area.addEventListener("input", () => {
      this.drafts.set(id, this.area.value);
      this.area.rows = Math.min(5, this.area.value.split("\n").length);
    });
    // A no is sent with the words; a yes needs its button, so that it is never sent by accident.
    this.area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.text) this.choose(this.find("ask") || this.find("no"));
    });
    return labelled("Your comment", this.area, { hidden: true });
  }

  get text() {
    return this.item.form.comment ? this.area.value.trim() : "";
  }

  find(kind) {
    return this.choices.find((choice) => choice.kind === kind);
  }

  /** Edit the content of the question in place. */
  edit({ into, base, fields }) {
    const areas = fields.map((field) => h("textarea", { rows: String(Math.min(14, field.text.split("\n").length + 3)), class: "code", value: field.text, spellcheck: "false" }));
    this.subject.replaceChildren(...fields.map((field, place) => labelled(field.label, areas[place])));
    const value = ({ lines, text }, area) => (area.value === text && !lines ? text : lines ? area.value.split("\n").map((line) => line.trim()).filter(Boolean) : area.value);
    this.edited = () =>
      fields.some((field, place) => areas[place].value !== field.text)
        ? { [into]: { ...base, ...Object.fromEntries(fields.map((field, place) => [field.name, value(field, areas[place])])) } }
        : {};
    areas[0].focus();
  }

  /** Say on the buttons what they would do with what is ticked and written. */
  label() {
    if (!this.may) return;
    const all = this.hunks ? this.item.form.blocks.find((block) => block.type === "hunks").files.length : 0;
    const part = all && this.hunks.size < all;
    const missing = this.answers ? this.answers().some((answer) => !answer) : part && !this.hunks.size;
    for (const choice of this.choices) {
      const { verdict } = choice.decision;
      if (verdict === "approve" || verdict === "answer") choice.button.disabled = Boolean(missing) && choice.kind !== "ask";
      if (choice.kind === "yes" && all) choice.button.lastChild.textContent = part ? `Allow ${this.hunks.size} of ${all} changes` : choice.label;
    }
  }

  async choose(choice) {
    if (choice.button.disabled) return;
    const comments = this.comments?.list() || [];
    if (choice.kind === "ask" && !this.text && !comments.length) {
      this.area.focus();
      announce("Say what to change.");
      return;
    }
    if (choice.confirm && !(await confirmed(choice.confirm, choice.label))) return;
    const approves = choice.decision.verdict === "approve";
    const part = approves && this.hunks && this.hunks.size < this.item.form.blocks.find((block) => block.type === "hunks").files.length;
    this.send({
      ...choice.decision,
      text: this.text || undefined,
      comments: comments.length ? comments : undefined,
      hunks: part ? [...this.hunks].sort((a, b) => a - b) : undefined,
      answers: this.answers && choice.kind === "yes" ? this.answers() : undefined,
      ...(approves && this.edited ? this.edited() : {}),
    });
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

  /** The key for yes. */
  approve() {
    if (this.may && this.item && !this.guarded()) this.choose(this.choices.find((choice) => choice.kind === "yes"));
  }

  /** The key for no: the words first, as a rejection without them helps nobody. */
  reject() {
    if (this.may && this.item?.form.comment) this.area.focus();
  }
}
