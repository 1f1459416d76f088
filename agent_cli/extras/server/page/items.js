// The entries of a transcript as elements.

import { copyButton, h, icon } from "./dom.js";
import { markdown } from "./drawn.js";
import { fileView } from "./diff.js";
import { oneLine, shorten, visible, whenExactly } from "./text.js";

const MARKS = {
  requested: ["dot", "not started"],
  waiting: ["help", "waiting for a decision"],
  running: ["dot", "running"],
  done: ["check", "done"],
  failed: ["cross", "failed"],
  denied: ["stop", "denied"],
  stopped: ["skip", "stopped"],
};
const IMAGE = /^image\/(?:png|jpeg|gif|webp)$/;
// Rows of a diff that are shown without being asked for, and steps of a sub-agent.
const SHORT_DIFF = 60;
const STEPS = 40;
const LONGEST_OUTPUT = 60_000;
const LABELS = { user: "You", answer: "Answer", live: "Answer", end: "End of turn" };
const DRAW = { user, answer, call, note, end, live };

/** Return the element of an item. view: `open`, a map of what the reader has opened and closed, and `redraw`. */
export function itemView(item, view) {
  const label = LABELS[item.kind] || shorten(oneLine(item.summary ?? item.text), 80);
  const state = item.status ? `, ${MARKS[item.status][1]}` : "";
  return h("article", { class: `item item-${item.kind}`, tabindex: "-1", "aria-label": label + state }, DRAW[item.kind](item, view));
}

function user(item) {
  return h(
    "div",
    { class: "user", title: whenExactly(item.time) },
    h("span", { class: "hidden-text" }, "You: "),
    h("div", { class: "user-text" }, visible(item.text)),
    media(item.media),
  );
}

function answer(item, view) {
  const said = item.parts.filter((part) => part.type === "text").map((part) => part.text);
  return h(
    "div",
    { class: "answer" },
    item.parts.map((part, place) =>
      part.type === "text"
        ? markdown(part.drawn)
        : fold(`${item.key}:${place}`, view, h("span", { class: "dim" }, "Thought"), () => h("div", { class: "thought" }, markdown(part.drawn))),
    ),
    said.length ? copyButton(said.join("\n\n"), "Copy answer") : null,
  );
}

function live(item) {
  return h(
    "div",
    { class: "answer", "aria-busy": "true" },
    item.thinking && !item.text ? h("p", { class: "thinking-live" }, oneLine(item.thinking.slice(-400))) : null,
    item.text ? markdown(item.blocks, item.text.slice(item.rest)) : null,
    h("span", { class: "cursor", "aria-hidden": "true" }),
  );
}

function note(item, view) {
  const shown = [item.style === "dim" ? null : icon("warn"), h("span", {}, visible(item.text))];
  return h("div", { class: `note ${item.style}` }, item.more ? fold(item.key, view, shown, () => markdown(item.drawn)) : shown);
}

function end(item) {
  return h("p", { class: "turn-end" }, h("span", {}, item.text));
}

function media(list) {
  return list.map((one) =>
    IMAGE.test(one.mime)
      ? h("img", { class: "picture", src: `data:${one.mime};base64,${one.data}`, alt: one.name ? `Image ${one.name}` : "Image" })
      : h("span", { class: "tag" }, visible(one.name || one.mime)),
  );
}

/** A line that opens to show more. make: makes what is inside when it is opened first. */
function fold(key, view, summary, make, openAtFirst = false) {
  const open = view.open.get(key) ?? openAtFirst;
  const shown = h("details", { class: "fold", open }, h("summary", {}, summary));
  let filled = false;
  const fill = () => {
    if (filled) return;
    filled = true;
    shown.append(h("div", { class: "fold-body" }, make()));
  };
  if (open) fill();
  shown.addEventListener("toggle", () => {
    if (shown.open) fill();
    view.open.set(key, shown.open);
  });
  return shown;
}

function call(item, view) {
  const [drawn, words] = MARKS[item.status];
  const line = [
    h("span", { class: `mark ${item.status}`, role: "img", "aria-label": words }, icon(drawn)),
    h("span", { class: "summary-text" }, item.summary),
    item.brief ? h("span", { class: `brief ${item.status}` }, visible(item.brief)) : null,
  ];
  const make = bodyOf(item, view);
  return h(
    "div",
    { class: `call ${item.status}` },
    make ? fold(item.key, view, line, make, opensAtFirst(item)) : h("div", { class: "fold-line" }, line),
    item.decision ? h("p", { class: `decision ${item.status}` }, visible(item.decision)) : null,
    item.output ? h("pre", { class: "progress", tabindex: "0", "aria-label": "Output so far" }, visible(item.output).split("\n").slice(-12).join("\n")) : null,
  );
}

function opensAtFirst({ nested, status, display }) {
  if (nested) return status === "running" || status === "waiting";
  if (display?.type === "files") return display.files.reduce((rows, file) => rows + file.rows.length, 0) <= SHORT_DIFF;
  return display?.type === "TodoView" || (status === "failed" && display?.type === "CommandOutput");
}

/** Return what makes the body of a call; null where its line says everything. */
function bodyOf(item, view) {
  const { display } = item;
  if (item.nested) return () => nested(item, view);
  switch (display?.type) {
    case "files":
      return () => display.files.map((file) => fileView(file, { heading: display.files.length > 1 }));
    case "CommandOutput":
      return () => [
        h("div", { class: "command" }, h("pre", { tabindex: "0", "aria-label": "Command" }, display.command), copyButton(display.command, "Copy command")),
        display.output ? output(display.output) : h("p", { class: "hint" }, "No output."),
        display.note && display.exit_code === null ? h("p", { class: "hint" }, visible(display.note)) : null,
      ];
    case "Listing":
      if (!display.lines?.length) return null;
      return () => [output(display.lines.join("\n")), display.more ? h("p", { class: "hint" }, `and ${display.more.toLocaleString("en")} more`) : null];
    case "TodoView":
      return () => todoList(display.items);
    case "Note":
      return item.brief ? null : () => output(display.text);
    default:
  }
  if (item.plan) return () => markdown(item.drawn);
  if (item.result) return () => [argumentsOf(item), output(item.result), media(item.media)];
  return Object.keys(item.arguments).length ? () => argumentsOf(item) : null;
}

function argumentsOf(item) {
  const given = Object.entries(item.arguments);
  if (!given.length) return null;
  const text = (value) => shorten(visible(typeof value === "string" ? value : JSON.stringify(value)), 2000);
  return h("dl", { class: "arguments" }, given.map(([name, value]) => [h("dt", {}, name), h("dd", {}, text(value))]));
}

function output(text) {
  const cut = text.length > LONGEST_OUTPUT;
  return h(
    "div",
    { class: "output" },
    h("pre", { tabindex: "0", role: "group", "aria-label": "Output" }, visible(text.slice(0, LONGEST_OUTPUT)).replace(/\n$/, "")),
    cut ? h("p", { class: "hint" }, `The first ${LONGEST_OUTPUT.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters; an export has all.`) : null,
    copyButton(text, "Copy output"),
  );
}

export function todoList(items) {
  const marks = { completed: ["☑", "done"], in_progress: ["▸", "in progress"], pending: ["☐", "open"], cancelled: ["☒", "cancelled"] };
  return h(
    "ul",
    { class: "todos" },
    items.map((todo) => {
      const [sign, words] = marks[todo.status || "pending"];
      return h("li", { class: todo.status || "pending" }, h("span", { class: "tick", role: "img", "aria-label": words }, sign), h("span", {}, visible(todo.content)));
    }),
  );
}

/** What a sub-agent did is read after the fact; its newest steps are what matters while it works. */
function nested(item, view) {
  const key = `${item.key}:all`;
  const shown = view.open.get(key) ? item.steps : item.steps.slice(-STEPS);
  const hidden = item.steps.length - shown.length;
  const all = () => {
    view.open.set(key, true);
    view.redraw(item);
  };
  const { prompt } = item.arguments;
  return h(
    "div",
    { class: "nested" },
    prompt ? h("p", { class: "nested-prompt" }, shorten(visible(prompt), 600)) : null,
    hidden ? h("button", { type: "button", class: "button quiet small", on: { click: all } }, `Show ${hidden} earlier steps`) : null,
    shown.map((step) => h("div", { class: `item item-${step.kind}` }, DRAW[step.kind](step, view))),
  );
}
