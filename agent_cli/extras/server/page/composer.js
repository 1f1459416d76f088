// The field in which a message is written: completion, files, drafts and earlier messages.

import { ApiError, get, query, upload } from "./api.js";
import { announce, button, h, icon, labelled, toast } from "./dom.js";
import { recall, remember } from "./storage.js";
import { oneLine, visible } from "./text.js";

const COMPLETES = /^\/[\w:.-]*(?: \S*)?$|(?:^|\s)@[^\s@]*$/;
// Milliseconds from the last key to the question what it can become.
const PAUSE = 90;
// As the server has them, so that a file is refused before it is sent.
const LARGEST = 10 << 20;
const MOST = 10;

let fields = 0;

export class MessageField {
  /**
   * where: the query of a completion. key: under which the draft is remembered. earlier: returns the messages that were
   * sent, the newest first. changed: called when there is something to send, or nothing any more.
   */
  constructor({ label, placeholder = "", rows = 1, where, key, earlier = () => [], submit, changed = () => {} }) {
    Object.assign(this, { where, key, earlier, submit, changed, files: [], items: [], at: -1, back: -1, pending: 0 });
    const id = `completions-${++fields}`;
    this.smallest = rows;
    this.area = h("textarea", {
      rows: String(rows), placeholder, "aria-autocomplete": "list", "aria-controls": id,
      "aria-keyshortcuts": "m", on: { input: () => this.typed(), keydown: (event) => this.pressed(event), blur: () => this.close(), paste: (event) => this.pasted(event) },
    });
    this.list = h("ul", { class: "completions", role: "listbox", id, "aria-label": "Completions", hidden: true });
    this.chips = h("ul", { class: "files", "aria-label": "Files of the message", hidden: true });
    this.picker = h("input", { type: "file", multiple: true, hidden: true, tabindex: "-1", "aria-label": "Files", on: { change: () => this.picked() } });
    this.attach = button("Attach files", { kind: "quiet", icon: "plus", bare: true, on: () => this.picker.click() });
    this.element = h("div", { class: "message-field" }, this.list, this.chips, labelled(label, this.area, { hidden: true }), this.picker);
    const draft = this.saved();
    this.area.value = draft.text;
    for (const file of draft.files) this.add(file);
    this.fit();
  }

  get text() {
    return this.area.value.trim();
  }

  get uploads() {
    return this.files.map((file) => file.id);
  }

  get empty() {
    return !this.text && !this.files.length;
  }

  saved() {
    try {
      return { text: "", files: [], ...JSON.parse(recall(this.key) || "{}") };
    } catch {
      return { text: "", files: [] };
    }
  }

  save() {
    remember(this.key, this.empty ? "" : JSON.stringify({ text: this.area.value, files: this.files }));
    this.changed();
  }

  set(text) {
    this.area.value = text;
    this.area.setSelectionRange(text.length, text.length);
    this.fit();
    this.save();
  }

  /** Forget what is written, once it was sent. */
  clear() {
    this.files = [];
    this.back = -1;
    this.drawFiles();
    this.set("");
  }

  fit() {
    this.area.rows = Math.max(this.smallest, Math.min(8, this.area.value.split("\n").length));
  }

  typed() {
    this.back = -1;
    this.fit();
    this.save();
    clearTimeout(this.timer);
    const before = this.area.value.slice(0, this.area.selectionStart);
    if (COMPLETES.test(before)) this.timer = setTimeout(() => this.ask(before), PAUSE);
    else this.close();
  }

  async ask(before) {
    try {
      const { items } = await get(`/v1/completions${query({ before, ...this.where() })}`);
      if (before === this.area.value.slice(0, this.area.selectionStart) && document.activeElement === this.area) this.open(items);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.close();
    }
  }

  open(items) {
    this.items = items;
    this.at = items.length ? 0 : -1;
    this.list.hidden = !items.length;
    this.list.replaceChildren(
      ...items.map((item, place) =>
        h(
          "li",
          {
            role: "option", id: `${this.list.id}-${place}`, class: "completion", "aria-selected": "false",
            // The field keeps the focus.
            on: { mousedown: (event) => event.preventDefault(), click: () => this.take(place) },
          },
          h("span", { class: "completion-text" }, visible(item.text.trim())),
          item.help ? h("span", { class: "completion-help" }, visible(item.help)) : null,
        ),
      ),
    );
    this.move(0);
  }

  close() {
    if (this.list.hidden) return;
    this.open([]);
  }

  move(by) {
    const { items, list } = this;
    if (!items.length) {
      this.area.removeAttribute("aria-activedescendant");
      return;
    }
    list.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = (this.at + by + items.length) % items.length;
    const chosen = list.children[this.at];
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    this.area.setAttribute("aria-activedescendant", chosen.id);
  }

  take(place) {
    const { text, start } = this.items[place];
    const { value, selectionStart: cursor } = this.area;
    this.area.value = value.slice(0, start) + text + value.slice(cursor);
    this.area.setSelectionRange(start + text.length, start + text.length);
    this.close();
    this.area.focus();
    this.fit();
    this.save();
  }

  pressed(event) {
    const { key } = event;
    const open = !this.list.hidden;
    const enter = key === "Enter" && !event.shiftKey && !event.isComposing;
    // What is typed in full is sent, not completed once more.
    const whole = open && this.items[this.at].text.trim() === this.area.value.trim();
    if (open && (key === "ArrowDown" || key === "ArrowUp")) this.move(key === "ArrowDown" ? 1 : -1);
    else if (open && (key === "Tab" || (enter && !whole))) this.take(this.at);
    else if (open && key === "Escape") {
      this.close();
      event.stopPropagation();
    } else if (enter && (this.smallest > 1 ? event.ctrlKey || event.metaKey : !matchMedia("(pointer: coarse)").matches)) this.submit();
    else if (key === "ArrowUp" && (!this.area.value || this.back >= 0)) this.recall(1);
    else if (key === "ArrowDown" && this.back >= 0) this.recall(-1);
    else return;
    event.preventDefault();
  }

  /** Show an earlier message instead of the empty field. */
  recall(by) {
    const earlier = this.earlier();
    const back = Math.min(this.back + by, earlier.length - 1);
    if (back === this.back) return;
    this.set(back < 0 ? "" : earlier[back]);
    this.back = back;
  }

  pasted(event) {
    const files = [...(event.clipboardData?.files || [])];
    if (!files.length) return;
    event.preventDefault();
    this.addAll(files);
  }

  picked() {
    this.addAll([...this.picker.files]);
    this.picker.value = "";
  }

  /** Take files that are dropped on an element. */
  dropOn(element) {
    const over = (on) => (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      element.classList.toggle("dropping", on);
      if (event.type === "drop") this.addAll([...event.dataTransfer.files]);
    };
    element.addEventListener("dragover", over(true));
    element.addEventListener("dragleave", over(false));
    element.addEventListener("drop", over(false));
  }

  async addAll(files) {
    for (const file of files) {
      if (this.files.length >= MOST) toast(`A message brings at most ${MOST} files.`, "bad");
      else if (file.size > LARGEST) toast(`${oneLine(file.name)} is larger than ${LARGEST >> 20} MB.`, "bad");
      else {
        this.pending += 1;
        this.changed();
        try {
          this.add(await upload(file, file.name || "image.png"));
        } catch (error) {
          toast(error.message, "bad");
        }
        this.pending -= 1;
        this.save();
      }
    }
  }

  add({ id, name }) {
    this.files.push({ id, name });
    this.drawFiles();
    announce(`${oneLine(name)} is attached.`);
  }

  drawFiles() {
    const remove = (file) => {
      this.files = this.files.filter((one) => one !== file);
      this.drawFiles();
      this.save();
      this.area.focus();
    };
    this.chips.hidden = !this.files.length;
    this.chips.replaceChildren(
      ...this.files.map((file) => h("li", {}, icon("clip"), h("span", {}, visible(oneLine(file.name))), button(`Remove ${oneLine(file.name)}`, { kind: "quiet small", icon: "cross", bare: true, on: () => remove(file) }))),
    );
  }
}
