// Show unified diffs as rows with line numbers.

import { button, h } from "./dom.js";
import { highlighted, languageOf } from "./highlight.js";
import { visible } from "./text.js";

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;
// More rows than this are shown when asked for.
const SHOWN = 400;

/** Return the rows of a patch: `{kind, old, now, text}`. */
export function rowsOf(patch) {
  const rows = [];
  let old = 0;
  let now = 0;
  const lines = patch.replace(/\n$/, "").split("\n");
  let inside = false;
  for (const line of lines) {
    const head = HUNK.exec(line);
    if (head) {
      old = Number(head[1]);
      now = Number(head[2]);
      inside = true;
      rows.push({ kind: "hunk", text: line });
    } else if (!inside && /^(?:diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename)/.test(line)) {
      if (!/^(?:diff |index |--- |\+\+\+ )/.test(line)) rows.push({ kind: "note", text: line });
    } else if (line.startsWith("diff --git")) {
      inside = false;
    } else if (line[0] === "+") rows.push({ kind: "added", now: now++, text: line.slice(1) });
    else if (line[0] === "-") rows.push({ kind: "removed", old: old++, text: line.slice(1) });
    else if (line[0] === "\\") rows.push({ kind: "note", text: line.slice(2) });
    else rows.push({ kind: "same", old: old++, now: now++, text: line.slice(1) });
  }
  return rows;
}

/** Return a patch as a table of rows. */
export function patchView(patch, path, { all = false } = {}) {
  const rows = rowsOf(patch);
  const language = languageOf(path);
  const body = h("tbody");
  const draw = (some) => {
    for (const row of some) body.append(rowView(row, language));
  };
  const first = all || rows.length <= SHOWN + 50 ? rows.length : SHOWN;
  draw(rows.slice(0, first));
  const table = h("table", { class: "diff" }, h("caption", { class: "hidden-text" }, `Changes to ${visible(path)}`), body);
  const shown = h("div", { class: "diff-rows", tabindex: "0", role: "group", "aria-label": `Changes to ${visible(path)}` }, table);
  if (first < rows.length) {
    const more = button(`Show the other ${(rows.length - first).toLocaleString("en")} lines`, {
      kind: "quiet small",
      on: () => {
        draw(rows.slice(first));
        more.remove();
      },
    });
    return h("div", {}, shown, more);
  }
  return shown;
}

function rowView(row, language) {
  if (row.kind === "hunk" || row.kind === "note") {
    return h("tr", { class: row.kind }, h("td", { colspan: "3" }, visible(row.text)));
  }
  const sign = row.kind === "added" ? "+" : row.kind === "removed" ? "-" : " ";
  return h(
    "tr",
    { class: row.kind },
    h("td", { class: "number" }, String(row.kind === "added" ? row.now : row.old)),
    h("td", { class: "sign", "aria-label": { "+": "added", "-": "removed" }[sign] }, sign),
    h("td", { class: "text" }, highlighted(visible(row.text), language)),
  );
}

export function changeCount(added, removed) {
  return h(
    "span",
    { class: "change-count" },
    h("span", { class: "plus" }, `+${added}`),
    " ",
    h("span", { class: "minus" }, `-${removed}`),
  );
}

/** Return a change of one file: its heading and its rows. */
export function fileView(file, { heading = true, all = false } = {}) {
  return h(
    "div",
    { class: "file" },
    heading
      ? h(
          "div",
          { class: "file-head" },
          h("span", { class: "path" }, visible(file.path)),
          file.what ? h("span", { class: "tag" }, file.what) : null,
          changeCount(file.added ?? 0, file.removed ?? 0),
        )
      : null,
    file.patch ? patchView(file.patch, file.path, { all }) : h("p", { class: "hint" }, "No text to show."),
  );
}
