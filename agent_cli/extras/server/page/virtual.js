// A list of which only the visible part is in the DOM. Items have a `key` that stays, and a `rev` that changes with them.

import { h } from "./dom.js";

const OVERSCAN = 700;
const AT_END = 48;
const GUESS = { user: 90, answer: 160, thinking: 44, call: 52, note: 40, end: 40, live: 80 };

export class VirtualList {
  /** render: makes the element of an item. nearTop: called when the reader comes near the first item. */
  constructor({ render, nearTop, followed }) {
    this.render = render;
    this.nearTop = nearTop;
    this.followed = followed;
    this.items = [];
    this.heights = new Map();
    this.mounted = new Map();
    this.tops = new Float64Array(1);
    this.following = true;
    this.frame = 0;
    this.lastTop = 0;
    this.inner = h("div", { class: "feed", role: "feed", "aria-label": "Transcript" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Transcript, scrollable" }, this.inner);
    this.observer = new ResizeObserver((entries) => this.measure(entries));
    this.observer.observe(this.scroller);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  /** Show these items. */
  set(items) {
    this.change(() => {
      this.items = items;
    });
  }

  /** Change the items or their heights. Where the reader is stays where it is, also if items were added before. */
  change(make) {
    const anchor = this.following ? null : this.anchor();
    make();
    this.layout();
    const place = anchor ? this.items.findIndex((item) => item.key === anchor.key) : -1;
    const wanted = place >= 0 ? this.tops[place] + anchor.offset : this.scroller.scrollTop;
    if (Math.abs(wanted - this.scroller.scrollTop) > 1) {
      // Before the paddings are right, the place may not exist yet.
      this.draw();
      this.scrollTo(wanted);
    }
    this.schedule();
  }

  anchor() {
    const top = this.scroller.scrollTop;
    const place = this.find(top);
    return this.items[place] ? { key: this.items[place].key, offset: top - this.tops[place] } : null;
  }

  layout() {
    const { items, heights } = this;
    const tops = new Float64Array(items.length + 1);
    let top = 0;
    for (let place = 0; place < items.length; place++) {
      tops[place] = top;
      top += heights.get(items[place].key) ?? GUESS[items[place].kind] ?? 60;
    }
    tops[items.length] = top;
    this.tops = tops;
  }

  /** Return the index of the item at an offset. */
  find(offset) {
    let low = 0;
    let high = this.items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= offset) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  schedule() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const { scroller, items, tops, inner } = this;
    const size = scroller.clientHeight;
    const total = tops[items.length];
    const top = this.following ? Math.max(0, total - size) : scroller.scrollTop;
    const first = items.length ? this.find(Math.max(0, top - OVERSCAN)) : 0;
    const last = items.length ? Math.min(items.length - 1, this.find(top + size + OVERSCAN)) : -1;
    const wanted = new Set();
    for (let place = first; place <= last; place++) wanted.add(items[place].key);
    for (const [key, shown] of this.mounted) {
      if (!wanted.has(key)) {
        // The keys must still scroll when what had the focus is gone.
        if (shown.element.contains(document.activeElement)) scroller.focus({ preventScroll: true });
        this.observer.unobserve(shown.element);
        shown.element.remove();
        this.mounted.delete(key);
      }
    }
    let before = null;
    for (let place = first; place <= last; place++) {
      const item = items[place];
      let shown = this.mounted.get(item.key);
      if (!shown || shown.rev !== item.rev || shown.item !== item) {
        const element = this.render(item);
        element.dataset.key = item.key;
        if (shown) {
          this.observer.unobserve(shown.element);
          const focused = shown.element.contains(document.activeElement) ? pathTo(shown.element, document.activeElement) : null;
          shown.element.replaceWith(element);
          if (focused) follow(element, focused)?.focus({ preventScroll: true });
        }
        shown = { element, rev: item.rev, item };
        this.mounted.set(item.key, shown);
        this.observer.observe(element);
      }
      shown.element.setAttribute("aria-posinset", String(place + 1));
      shown.element.setAttribute("aria-setsize", "-1");
      const next = before ? before.nextSibling : inner.firstChild;
      if (next !== shown.element) inner.insertBefore(shown.element, next);
      before = shown.element;
    }
    inner.style.paddingTop = `${tops[first] || 0}px`;
    inner.style.paddingBottom = `${items.length ? total - tops[last + 1] : 0}px`;
    if (this.following) this.toEnd();
    if (!this.following && scroller.scrollTop < 900 && this.nearTop) this.nearTop();
    else if (this.following && total < size + 900 && this.nearTop) this.nearTop();
  }

  measure(entries) {
    const fresh = new Map();
    for (const { target, borderBoxSize } of entries) {
      const { key } = target.dataset;
      const height = borderBoxSize[0].blockSize;
      const known = this.mounted.get(key)?.element === target ? (this.heights.get(key) ?? -1) : height;
      if (Math.abs(known - height) > 0.5) fresh.set(key, height);
    }
    if (!fresh.size && entries.every(({ target }) => target !== this.scroller)) return;
    this.change(() => {
      for (const [key, height] of fresh) this.heights.set(key, height);
    });
  }

  scrollTo(top) {
    this.scroller.scrollTop = top;
    this.lastTop = this.scroller.scrollTop;
  }

  toEnd() {
    this.scrollTo(this.scroller.scrollHeight);
  }

  scrolled() {
    const { scroller } = this;
    const top = scroller.scrollTop;
    const atEnd = scroller.scrollHeight - top - scroller.clientHeight < AT_END;
    const was = this.following;
    if (atEnd) this.following = true;
    else if (top < this.lastTop - 1) this.following = false;
    this.lastTop = top;
    if (was !== this.following && this.followed) this.followed(this.following);
    this.schedule();
  }

  follow() {
    this.following = true;
    if (this.followed) this.followed(true);
    this.schedule();
  }

  destroy() {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
  }
}

function pathTo(root, node) {
  const path = [];
  for (let each = node; each !== root; each = each.parentNode) path.unshift([...each.parentNode.children].indexOf(each));
  return path;
}

function follow(root, path) {
  return path.reduce((node, place) => node?.children[place], root);
}
