// Show changes as rows with line numbers: one below the other, or side by side where there is room (see app.css).

import { button, h } from "./dom.js";
import { drawn } from "./drawn.js";
import { visible } from "./text.js";

// More rows than this are shown when asked for.
const SHOWN = 400;
const SIGNS = { added: "+", removed: "-", same: " " };
const isChange = ([kind]) => kind === "added" || kind === "removed";

/** Return the rows of a change as a table. comments: a `LineComments`, to write some. */
export function patchView(rows, path, { all = false, comments = null } = {}) {
  const first = all || rows.length <= SHOWN + 50 ? rows.length : SHOWN;
  const label = `Changes to ${visible(path)}`;
  const table = h("table", { class: "diff" }, h("caption", { class: "hidden-text" }, label), groups(rows.slice(0, first), path, comments));
  table.querySelector(".line")?.setAttribute("tabindex", "0");
  const shown = h("div", { class: "diff-rows", tabindex: "0", role: "group", "aria-label": label }, table);
  if (first === rows.length) return shown;
  const more = button(`Show the other ${(rows.length - first).toLocaleString("en")} lines`, {
    kind: "quiet small",
    on: () => {
      table.append(...groups(rows.slice(first), path, comments));
      more.remove();
    },
  });
  return h("div", {}, shown, more);
}

/** Lines that changed together are a group, whose two sides begin at the same height. */
function groups(rows, path, comments) {
  const made = [];
  rows.forEach((row, place) => {
    if (!place || isChange(row) !== isChange(rows[place - 1])) made.push(h("tbody"));
    made.at(-1).append(...rowView(row, path, comments));
  });
  return made;
}

function rowView([kind, old, now, nodes], path, comments) {
  const sign = SIGNS[kind];
  if (!sign) return [h("tr", { class: kind }, h("td", { colspan: "3" }, drawn(nodes)))];
  const cells = (number) => [number, h("td", { class: "sign", "aria-label": sign === " " ? null : kind }, sign), h("td", { class: "text" }, drawn(nodes))];
  const number = h("td", { class: "number" });
  const shown = h("tr", { class: kind }, cells(number));
  const line = kind === "removed" ? old : now;
  number.append(comments ? comments.number(path, { kind, number: line }, shown) : String(line));
  // What did not change stands on both sides; the old one is seen only where they are side by side.
  return kind === "same" ? [h("tr", { class: "same old", "aria-hidden": "true" }, cells(h("td", { class: "number" }, String(old)))), shown] : [shown];
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
    file.rows.length ? patchView(file.rows, file.path, { all, comments }) : h("p", { class: "hint" }, "No text to show."),
  );
}

/** Return changes with a tick each, and the set of the indexes that are ticked. changed: called when one is ticked or not. */
export function hunkPicker(files, { legend, comments = null, disabled = false, changed }) {
  const chosen = new Set(files.map((file) => file.index));
  const hunk = (file, place) => {
    const toggle = () => {
      chosen[box.checked ? "add" : "delete"](file.index);
      shown.classList.toggle("skipped", !box.checked);
      changed();
    };
    const box = h("input", { type: "checkbox", checked: true, disabled, on: { change: toggle } });
    const comment = comments && button(`Comment on change ${place + 1}`, { kind: "quiet small", icon: "comment", bare: true, on: () => shown.querySelector(":is(.added, .removed) .line").click() });
    const name = h("label", { class: "check" }, box, h("span", { class: "path" }, `${visible(file.path)}, change ${place + 1}`), changeCount(file.added, file.removed));
    const shown = h("div", { class: "hunk" }, h("div", { class: "hunk-head" }, name, comment), file.rows.length ? patchView(file.rows, file.path, { all: true, comments }) : null);
    return shown;
  };
  return { element: h("fieldset", { class: "hunks" }, h("legend", {}, legend), files.map(hunk)), chosen };
}
