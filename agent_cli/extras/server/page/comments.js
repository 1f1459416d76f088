// Comments on lines of changes: a line number opens a field below its line.

import { h } from "./dom.js";
import { visible } from "./text.js";

export class LineComments {
  /** changed: called when a comment was written. */
  constructor(changed = () => {}) {
    this.changed = changed;
    this.written = new Map();
  }

  /** The comments that say something, as a decision or a message has them. */
  list() {
    return [...this.written.values()].filter(({ text }) => text.trim());
  }

  /** Return the number of a line as a button that opens its comment, and show the comment if there is one. */
  number(path, row, element) {
    const place = { path, line: row.number, side: row.kind === "removed" ? "old" : "new" };
    const key = JSON.stringify(place);
    const open = () => {
      let field = element.nextElementSibling?.matches(".comment-row") ? element.nextElementSibling : null;
      if (!field) element.after((field = this.field(key, place)));
      return field.querySelector("textarea");
    };
    if (this.written.get(key)?.text.trim()) queueMicrotask(open);
    return h(
      "button",
      {
        type: "button",
        class: "line",
        tabindex: "-1",
        "aria-label": `Comment on line ${row.number}${row.kind === "removed" ? ", removed" : ""}`,
        on: { click: () => open().focus(), keydown: step },
      },
      String(row.number),
    );
  }

  field(key, place) {
    const area = h("textarea", { rows: "1", "aria-label": `Comment on ${visible(place.path)}, line ${place.line}`, placeholder: "Comment on this line", value: this.written.get(key)?.text || "" });
    const row = h("tr", { class: "comment-row" }, h("td", { colspan: "3" }, area));
    area.addEventListener("input", () => {
      area.rows = Math.min(6, area.value.split("\n").length);
      this.written.set(key, { ...place, text: area.value });
      this.changed();
    });
    area.addEventListener("blur", () => {
      if (!area.value.trim()) row.remove();
    });
    return row;
  }
}

/** The arrows lead from line to line; the first is in the order of Tab. */
function step(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  const lines = [...event.target.closest("table").querySelectorAll(".line")];
  lines[lines.indexOf(event.target) + by]?.focus();
  event.preventDefault();
}
