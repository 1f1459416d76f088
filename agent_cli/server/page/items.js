// The items of a transcript as elements.

import { copyButton, h, icon } from "./dom.js";
import { markdown } from "./markdown.js";
import { fileView } from "./diff.js";
import { exact, exactLine } from "./lookalikes.js";
import { oneLine, relative, shorten, shortDuration, shortCount, visible, whenExactly } from "./text.js";
import { filesOf, shortResult } from "./transcript.js";

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
// Rows of a diff that are shown without being asked for.
const SHORT_DIFF = 60;
const LONGEST_OUTPUT = 60_000;

/** Return the element of an item. view: `open`, a map of what the reader has opened and closed, and `cwd`. */
export function itemView(item, view) {
  const body = { user, answer, thinking, call, note, end, live }[item.kind](item, view);
  return h("article", { class: `item item-${item.kind}`, tabindex: "-1", "aria-label": labelOf(item) }, body);
}

function labelOf(item) {
  switch (item.kind) {
    case "user":
      return "You";
    case "answer":
    case "live":
      return "Answer";
    case "thinking":
      return "Thinking";
    case "call":
      return `${shorten(oneLine(item.summary), 80)}, ${MARKS[item.state][1]}`;
    case "end":
      return "End of turn";
    default:
      return shorten(oneLine(item.text), 80);
  }
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

function answer(item) {
  return h("div", { class: "answer" }, markdown(item.text), copyButton(item.text, "Copy answer"));
}

function live(item) {
  return h(
    "div",
    { class: "answer", "aria-busy": "true" },
    item.thinking && !item.text ? h("p", { class: "thinking-live" }, shorten(oneLine(item.thinking).slice(-400), 400)) : null,
    item.text ? markdown(item.text, { live: true }) : null,
    h("span", { class: "cursor", "aria-hidden": "true" }),
  );
}

function thinking(item, view) {
  return fold(item.key, view, [h("span", { class: "dim" }, "Thought")], () => h("div", { class: "thought" }, markdown(item.text)), false);
}

function note(item, view) {
  const text = h("span", {}, visible(item.text));
  const shown = [item.style === "dim" ? null : icon("warn"), text];
  if (!item.more) return h("p", { class: `note ${item.style}` }, shown);
  return h("div", { class: `note ${item.style}` }, fold(item.key, view, shown, () => markdown(item.more), false));
}

function end(item) {
  return h("p", { class: "turn-end" }, h("span", {}, item.text));
}

function media(list = []) {
  return (list || []).map((one) =>
    IMAGE.test(one.mime)
      ? h("img", { class: "picture", src: `data:${one.mime};base64,${one.data}`, alt: one.name ? `Image ${one.name}` : "Image" })
      : h("span", { class: "tag" }, visible(one.name || one.mime)),
  );
}

/** A line that opens to show more. make: makes what is inside when it is opened first. */
function fold(key, view, summary, make, openAtFirst) {
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
  const [drawn, words] = MARKS[item.state];
  const brief = briefOf(item);
  const line = [
    h("span", { class: `mark ${item.state}`, role: "img", "aria-label": words }, icon(drawn)),
    h("span", { class: "summary-text" }, exactLine(item.summary)),
    brief ? h("span", { class: `brief ${item.state}` }, brief) : null,
  ];
  const said = decisionWords(item);
  const make = bodyOf(item, view);
  return h(
    "div",
    { class: `call ${item.state}` },
    make ? fold(item.key, view, line, make, opensAtFirst(item)) : h("div", { class: "fold-line" }, line),
    said ? h("p", { class: `decision ${item.decision.decision}` }, said) : null,
    item.answered ? h("p", { class: "decision approve" }, answerWords(item.answered)) : null,
    item.progress ? h("pre", { class: "progress", tabindex: "0", "aria-label": "Output so far" }, visible(item.progress).split("\n").slice(-12).join("\n")) : null,
  );
}

function briefOf(item) {
  if (item.state === "waiting") return "waits";
  if (item.state === "stopped") return "stopped";
  const parts = [];
  if (item.children) {
    const calls = item.children.calls.size;
    if (calls) parts.push(`${calls} call${calls === 1 ? "" : "s"}`);
    if (item.tokens) parts.push(`${shortCount(item.tokens)} tokens`);
    if (item.seconds && item.state !== "running") parts.push(shortDuration(item.seconds));
  } else if (item.state === "done" || item.state === "failed") {
    const brief = shortResult(item.display);
    // The line of an edit often says its size already.
    parts.push(brief === "0s" || item.summary.includes(brief) ? "" : brief);
    if (!parts[0] && item.state === "failed" && item.result) parts[0] = shorten(oneLine(item.result.split("\n")[0]), 100);
  } else if (item.state === "denied" && !item.decision?.byUser) parts.push("denied");
  return parts.filter(Boolean).join(" · ");
}

function decisionWords({ decision, state }) {
  if (!decision) return "";
  const who = decision.user ? exact(decision.user) : decision.byUser ? "user" : "";
  if (decision.decision === "reject") {
    if (!decision.byUser) return decision.reason ? `Denied: it ${visible(decision.reason)}` : "Denied by the settings";
    return `Rejected${who === "user" ? "" : ` by ${who}`}${decision.reason ? `: ${visible(decision.reason)}` : ""}`;
  }
  const always = decision.mode === "acceptEdits" ? ", and all edits this session" : decision.rule ? `, always: ${exact(decision.rule)}` : "";
  const said = decision.reason ? `: ${visible(decision.reason)}` : "";
  return state === "waiting" ? "" : `Allowed${who === "user" ? "" : ` by ${who}`}${always}${said}`;
}

function answerWords(answered) {
  const by = answered.user ? ` by ${exact(answered.user)}` : "";
  const words = { approve: "Approved", revise: "Changes requested", undo: "Undone", cancel: "Cancelled", answer: "Answered" }[answered.verdict] || "Answered";
  const text = visible(answered.text || "").trim();
  return `${words}${by}${text ? `: ${text}` : ""}`;
}

function opensAtFirst(item) {
  if (item.children) return item.state === "running" || item.state === "waiting";
  const files = filesOf(item.display);
  if (files.length) return files.reduce((rows, file) => rows + (file.patch || "").split("\n").length, 0) <= SHORT_DIFF;
  return item.display?.type === "TodoView" || (item.state === "failed" && item.display?.type === "CommandOutput");
}

/** Return what makes the body of a call; null where its line says everything. */
function bodyOf(item, view) {
  const { display } = item;
  if (item.children) return () => nested(item, view);
  const files = filesOf(display);
  if (files.length) return () => files.map((file) => fileView({ ...file, path: relative(file.path, view.cwd) }, { heading: files.length > 1 }));
  switch (display?.type) {
    case "CommandOutput":
      return () => [
        h("div", { class: "command" }, h("pre", { tabindex: "0", "aria-label": "Command" }, exact(display.command)), copyButton(display.command, "Copy command")),
        display.output ? output(display.output) : h("p", { class: "hint" }, "No output."),
        display.note && display.exit_code === null ? h("p", { class: "hint" }, visible(display.note)) : null,
      ];
    case "Listing":
      if (!(display.lines || []).length) return null;
      return () => [output(display.lines.join("\n")), display.more ? h("p", { class: "hint" }, `and ${display.more.toLocaleString("en")} more`) : null];
    case "TodoView":
      return () => todoList(display.items);
    case "Note":
      return shortResult(display) ? null : () => output(display.text);
    default:
  }
  if (item.question?.kind === "plan" && item.question.data?.plan) return () => markdown(item.question.data.plan);
  const pictures = (item.media || []).length ? media(item.media) : null;
  if (item.result) return () => [argumentsOf(item), output(item.result), pictures];
  return item.arguments && Object.keys(item.arguments).length ? () => argumentsOf(item) : null;
}

function argumentsOf(item) {
  const given = Object.entries(item.arguments || {});
  if (!given.length) return null;
  return h(
    "dl",
    { class: "arguments" },
    given.map(([name, value]) => [
      h("dt", {}, name),
      h("dd", {}, shorten(visible(typeof value === "string" ? value : JSON.stringify(value)), 2000)),
    ]),
  );
}

export function output(text, label = "Output") {
  const cut = text.length > LONGEST_OUTPUT;
  return h(
    "div",
    { class: "output" },
    h("pre", { tabindex: "0", role: "group", "aria-label": label }, visible(cut ? text.slice(0, LONGEST_OUTPUT) : text).replace(/\n$/, "")),
    cut ? h("p", { class: "hint" }, `The first ${LONGEST_OUTPUT.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters; an export has all.`) : null,
    copyButton(text, `Copy ${label.toLowerCase()}`),
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

// What a sub-agent did is read after the fact; its newest steps are what matters while it works.
const STEPS = 40;

function nested(item, view) {
  const all = item.children.items.filter((step) => step.kind !== "user" && step.kind !== "end");
  const prompt = item.arguments?.prompt;
  const key = `${item.key}:all`;
  const shown = view.open.get(key) ? all : all.slice(-STEPS);
  const hidden = all.length - shown.length;
  return h(
    "div",
    { class: "nested" },
    prompt ? h("p", { class: "nested-prompt" }, shorten(visible(prompt), 600)) : null,
    hidden > 0
      ? h("button", {
          type: "button",
          class: "button quiet small",
          on: {
            click: () => {
              view.open.set(key, true);
              view.redraw(item);
            },
          },
        }, `Show ${hidden} earlier steps`)
      : null,
    shown.map((step) => h("div", { class: `item item-${step.kind}` }, { answer, thinking, call, note }[step.kind](step, view))),
  );
}
