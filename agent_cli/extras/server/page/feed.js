// A list that grows at its end, which it follows, and to which earlier items are added before its first. The browser leaves
// out what is not on the screen (content-visibility). Items have a `key` that stays, and a `rev` that changes with them.

import { h } from "./dom.js";

// Pixels from an end of the list at which it is followed, or more is asked for.
const AT_END = 48;
const NEAR_TOP = 900;

export class Feed {
  /** render: makes the element of an item. nearTop: called near the first item. followed: called when that changes. */
  constructor({ render, nearTop, followed }) {
    Object.assign(this, { render, nearTop, followed, shown: new Map(), following: true, lastTop: 0 });
    this.inner = h("div", { class: "feed", role: "feed", "aria-label": "Transcript" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Transcript, scrollable" }, this.inner);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.observer = new ResizeObserver(() => this.settle());
    this.observer.observe(this.scroller);
    this.observer.observe(this.inner);
  }

  /** Show these items. Where the reader is stays where it is, also if items were added before. */
  set(items) {
    const { inner, shown, scroller } = this;
    const anchor = this.following ? null : this.anchor();
    const wanted = new Set(items.map(({ key }) => key));
    for (const [key, { element }] of shown) {
      if (wanted.has(key)) continue;
      element.remove();
      shown.delete(key);
    }
    let next = inner.firstChild;
    for (const item of items) {
      const before = shown.get(item.key)?.element;
      const element = this.element(item);
      if (before && before === next) next = element;
      if (element === next) next = element.nextSibling;
      else inner.insertBefore(element, next);
    }
    const kept = anchor && shown.get(anchor.key)?.element;
    if (kept) scroller.scrollTop += kept.getBoundingClientRect().top - anchor.top;
    this.lastTop = scroller.scrollTop;
    this.settle();
  }

  /** Return the element of an item, made anew if the item has changed. */
  element(item) {
    const known = this.shown.get(item.key);
    if (known?.rev === item.rev && known.item === item) return known.element;
    const element = this.render(item);
    element.dataset.key = item.key;
    element.setAttribute("aria-setsize", "-1");
    if (Number(item.key) >= 0) element.setAttribute("aria-posinset", String(Number(item.key) + 1));
    if (known) {
      const focused = known.element.contains(document.activeElement) ? pathTo(known.element, document.activeElement) : null;
      known.element.replaceWith(element);
      if (focused) follow(element, focused)?.focus({ preventScroll: true });
    }
    this.shown.set(item.key, { element, rev: item.rev, item });
    return element;
  }

  /** The item at the upper edge, and where it is. */
  anchor() {
    const { left, top, width } = this.scroller.getBoundingClientRect();
    const element = document.elementFromPoint(left + width / 2, top + 12)?.closest("[data-key]");
    return element ? { key: element.dataset.key, top: element.getBoundingClientRect().top } : null;
  }

  settle() {
    if (this.following) this.scroller.scrollTop = this.lastTop = this.scroller.scrollHeight;
    if (this.scroller.scrollTop < NEAR_TOP) this.nearTop();
  }

  scrolled() {
    const { scrollTop: top, scrollHeight, clientHeight } = this.scroller;
    const was = this.following;
    if (scrollHeight - top - clientHeight < AT_END) this.following = true;
    else if (top < this.lastTop - 1) this.following = false;
    this.lastTop = top;
    if (was !== this.following) this.followed(this.following);
    if (top < NEAR_TOP) this.nearTop();
  }

  follow() {
    this.following = true;
    this.followed(true);
    this.settle();
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
