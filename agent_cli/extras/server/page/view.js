// What the server says of a session, by key: its changes are put into place here, and drawn elsewhere.

// Characters kept of the output of a running call.
const OUTPUT = 4000;

export class View {
  constructor() {
    this.clear(0);
  }

  clear(first) {
    this.entries = new Map();
    this.top = [];
    this.first = first;
    this.draft = { text: "", thinking: "", blocks: [], rest: 0 };
  }

  /** Take a change. What is not about entries or the answer under way is left to others. */
  apply(change) {
    const { type, key } = change;
    if (type === "reset") this.clear(change.first);
    else if (type === "entry") this.put(key, change.entry);
    else if (type === "draft") this.draft = { text: change.text, thinking: change.thinking, blocks: [], rest: 0 };
    else if (type === "text" || type === "thinking") this.draft[type] += change.text;
    else if (type === "drawn") {
      this.draft.blocks.splice(change.at, Infinity, ...change.blocks);
      this.draft.rest = change.rest ?? this.draft.text.length;
    } else if (type === "output" && this.entries.has(key)) {
      const item = this.entries.get(key);
      item.output = (item.output + change.text).slice(-OUTPUT);
      this.touch(item);
    }
  }

  /** Add an entry, or change it; one whose page is not here yet comes with its page. */
  put(key, entry) {
    const above = key.lastIndexOf("/");
    const parent = above < 0 ? null : this.entries.get(key.slice(0, above));
    if (above < 0 ? Number(key) < this.first : !parent) return;
    let item = this.entries.get(key);
    if (!item) {
      item = { key, rev: 0, steps: [], parent };
      this.entries.set(key, item);
      (parent?.steps || this.top).push(item);
    }
    Object.assign(item, entry);
    this.touch(item);
  }

  touch(item) {
    for (let each = item; each; each = each.parent) each.rev += 1;
  }

  /** Add a page of earlier entries. */
  older(first, changes) {
    const { top } = this;
    this.top = [];
    this.first = first;
    for (const change of changes) this.apply(change);
    this.top.push(...top);
  }
}
