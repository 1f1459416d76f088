// Show unified diffs as rows with line numbers.

import { button, h } from "./dom.js";
import { highlighted, languageOf } from "./highlight.js";
import { visible } from "./text.js";

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;
// More rows than this are shown when asked for.
const SHOWN = 400;

/** Return the rows of a patch without file header: `{kind, number, text}`. */
function rowsOf(patch) {
  let old = 0;
  let now = 0;
  return patch.replace(/\n$/, "").split("\n").map((line) => {
    const head = HUNK.exec(line);
    if (head) [old, now] = [Number(head[1]), Number(head[2])];
    if (head || line[0] === "\\") return { kind: head ? "hunk" : "note", text: head ? line : line.slice(2) };
    const kind = { "+": "added", "-": "removed" }[line[0]] || "same";
    const number = kind === "added" ? now : old;
    if (kind !== "added") old += 1;
    if (kind !== "removed") now += 1;
    return { kind, number, text: line.slice(1) };
  });
}

/** Return a patch as a table of rows. comments: a `LineComments`, to write some. */
export function patchView(patch, path, { all = false, comments = null } = {}) {
  const rows = rowsOf(patch);
  const language = languageOf(path);
  const views = (some) => some.map((row) => rowView(row, language, path, comments));
  const first = all || rows.length <= SHOWN + 50 ? rows.length : SHOWN;
  const body = h("tbody", {}, views(rows.slice(0, first)));
  body.querySelector(".line")?.setAttribute("tabindex", "0");
  const label = `Changes to ${visible(path)}`;
  const table = h("table", { class: "diff" }, h("caption", { class: "hidden-text" }, label), body);
  const shown = h("div", { class: "diff-rows", tabindex: "0", role: "group", "aria-label": label }, table);
  if (first === rows.length) return shown;
  const more = button(`Show the other ${(rows.length - first).toLocaleString("en")} lines`, {
    kind: "quiet small",
    on: () => {
      body.append(...views(rows.slice(first)));
      more.remove();
    },
  });
  return h("div", {}, shown, more);
}

function rowView(row, language, path, comments) {
  if (row.kind === "hunk" || row.kind === "note") {
    return h("tr", { class: row.kind }, h("td", { colspan: "3" }, visible(row.text)));
  }
  const sign = { added: "+", removed: "-" }[row.kind] || " ";
  const number = h("td", { class: "number" });
  const shown = h(
    "tr",
    { class: row.kind },
    number,
    h("td", { class: "sign", "aria-label": sign === " " ? undefined : row.kind }, sign),
    h("td", { class: "text" }, highlighted(visible(row.text), language)),
  );
  number.append(comments ? comments.number(path, row, shown) : String(row.number));
  return shown;
}

export function changeCount(added, removed) {
  return h("span", { class: "change-count" }, h("span", { class: "plus" }, `+${added}`), " ", h("span", { class: "minus" }, `-${removed}`));
}

/** Return a change of one file: its heading and its rows. */
export function fileView(file, { heading = true, all = false, comments = null } = {}) {
  const what = file.what ? h("span", { class: "tag" }, file.what) : null;
  return h(
    "div",
    { class: "file" },
    heading ? h("div", { class: "file-head" }, h("span", { class: "path" }, visible(file.path)), what, changeCount(file.added, file.removed)) : null,
    file.patch ? patchView(file.patch, file.path, { all, comments }) : h("p", { class: "hint" }, "No text to show."),
  );
}
