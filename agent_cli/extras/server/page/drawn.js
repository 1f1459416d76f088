// Make elements of what the server has drawn: markdown, code and rows of changes, as nodes of a tag, attributes and nodes.

import { copyButton, h } from "./dom.js";
import { visible } from "./text.js";

const TAGS = new Set("p blockquote ul ol li hr br strong em del code span thead tbody tr th td".split(" "));
const CLASSES = /^(?:code-[ckns]|tick (?:open|done)|middle|right)$/;

/** Return nodes as elements. Tags and classes that are not known are left out, and text only ever becomes text. */
export function drawn(nodes) {
  return nodes.map((node) => (typeof node === "string" ? document.createTextNode(visible(node)) : element(node)));
}

function element([tag, { class: style, href, language, start }, ...nodes]) {
  const inner = drawn(nodes);
  if (tag === "pre") return codeBlock(inner, language);
  if (tag === "a") return link(href, inner);
  if (/^h[1-6]$/.test(tag)) return h("p", { class: `heading level-${tag[1]}`, role: "heading", "aria-level": 2 }, inner);
  if (tag === "table") return h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, h("table", {}, inner));
  const made = h(TAGS.has(tag) ? tag : "span", { class: CLASSES.test(style) ? style : "", start, scope: tag === "th" ? "col" : null }, inner);
  if (style?.startsWith("tick")) {
    const done = style.endsWith("done");
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", done ? "done" : "open");
    made.textContent = done ? "☑" : "☐";
  }
  return made;
}

/** Return markdown that the server has drawn. rest: text of it that is not drawn yet. */
export function markdown(nodes, rest = "") {
  const root = h("div", { class: "markdown" }, drawn(nodes), rest ? h("p", { class: "rest" }, visible(rest)) : null);
  // Below the page's own headings, and none skipped, whatever the text does.
  let level = 1;
  for (const heading of root.querySelectorAll("[role=heading]")) {
    level = Math.min(Number(heading.className.slice(-1)) + 1, level + 1);
    heading.setAttribute("aria-level", String(level));
  }
  return root;
}

export function codeBlock(nodes, language) {
  const code = h("code", {}, nodes);
  return h(
    "div",
    { class: "code-block" },
    h("div", { class: "code-head" }, h("span", {}, visible(language) || "text"), copyButton(() => code.textContent, "Copy code")),
    h("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code, ${visible(language)}` : "Code" }, code),
  );
}

/** Return a link to a web or mail address; of any other address, its text. */
function link(address, label) {
  const parsed = URL.canParse(address) ? new URL(address) : null;
  if (!["http:", "https:", "mailto:"].includes(parsed?.protocol)) return h("span", {}, label, ` (${address})`);
  return h("a", { href: parsed.href, rel: "noopener noreferrer nofollow", target: "_blank", title: parsed.href }, label);
}
