// Render a model's markdown as DOM nodes. HTML in it stays text; links lead only to web and mail addresses.

import { copyButton, h } from "./dom.js";
import { highlighted } from "./highlight.js";
import { visible } from "./text.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)(.*)$/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
// A model can nest without end; nobody can read that.
const DEEPEST = 12;
// No line that is meant to be read is longer.
const LONGEST = 20_000;

/** Return markdown as an element. */
export function markdown(text, { live = false } = {}) {
  const root = h("div", { class: "markdown" });
  root.append(...blocks(visible(text).split("\n"), 0));
  // Below the page's own headings, and none skipped, whatever the text does.
  let level = 1;
  for (const heading of root.querySelectorAll("[role=heading]")) {
    level = Math.min(Number(heading.dataset.level) + 1, level + 1);
    heading.setAttribute("aria-level", String(level));
  }
  if (live) root.classList.add("live");
  return root;
}

function blocks(lines, depth) {
  const found = [];
  if (depth > DEEPEST) return [h("p", {}, lines.join("\n"))];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
      continue;
    }
    let match;
    if (line.length > LONGEST) {
      found.push(h("p", {}, line));
      at += 1;
    } else if ((match = FENCE.exec(line))) {
      const [code, next] = fenced(lines, at, match);
      found.push(codeBlock(code, match[2].trim().split(/\s/)[0]));
      at = next;
    } else if ((match = HEADING.exec(line))) {
      const level = match[1].length;
      found.push(h("p", { class: `heading level-${level}`, role: "heading", "aria-level": 2, dataset: { level } }, inline(match[2] || "")));
      at += 1;
    } else if (RULE.test(line)) {
      found.push(h("hr"));
      at += 1;
    } else if (QUOTE.test(line)) {
      const inner = [];
      while (at < lines.length && (QUOTE.test(lines[at]) || (lines[at].trim() && inner.length && !starts(lines, at)))) inner.push(lines[at++].replace(QUOTE, ""));
      found.push(h("blockquote", {}, blocks(inner, depth + 1)));
    } else if (ITEM.test(line)) {
      const [list, next] = listOf(lines, at, depth);
      found.push(list);
      at = next;
    } else if (tableAt(lines, at)) {
      const [shown, next] = table(lines, at);
      found.push(shown);
      at = next;
    } else if (/^(?: {4}|\t)/.test(line)) {
      const code = [];
      while (at < lines.length && (/^(?: {4}|\t)/.test(lines[at]) || !lines[at].trim())) code.push(lines[at++].replace(/^(?: {4}|\t)/, ""));
      found.push(codeBlock(code.join("\n").trimEnd(), ""));
    } else {
      const words = [line.trimStart()];
      at += 1;
      while (at < lines.length && lines[at].trim() && !starts(lines, at)) words.push(lines[at++].trimStart());
      found.push(h("p", {}, inline(words.join("\n"))));
    }
  }
  return found;
}

/** Return whether a line begins another block than a paragraph. */
function starts(lines, at) {
  const line = lines[at];
  if (line.length > LONGEST) return true;
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || tableAt(lines, at);
}

function fenced(lines, start, [, fence]) {
  const end = new RegExp(`^ {0,3}\\${fence[0]}{${fence.length},}[ \\t]*$`);
  const indent = /^ */.exec(lines[start])[0].length;
  const code = [];
  let at = start + 1;
  while (at < lines.length && !end.test(lines[at])) {
    code.push(indent ? lines[at].replace(new RegExp(`^ {0,${indent}}`), "") : lines[at]);
    at += 1;
  }
  return [code.join("\n"), at + 1];
}

export function codeBlock(code, language) {
  const shown = h("code", {}, highlighted(code, language));
  return h(
    "div",
    { class: "code-block" },
    h("div", { class: "code-head" }, h("span", {}, language || "text"), copyButton(code, "Copy code")),
    h("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code, ${language}` : "Code" }, shown),
  );
}

function listOf(lines, start, depth) {
  const [, , mark] = ITEM.exec(lines[start]);
  const ordered = /\d/.test(mark);
  const kind = mark.slice(-1);
  const list = h(ordered ? "ol" : "ul");
  if (ordered && parseInt(mark, 10) !== 1) list.setAttribute("start", String(parseInt(mark, 10)));
  let at = start;
  let loose = false;
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || match[2].slice(-1) !== kind || RULE.test(lines[at])) break;
    const wide = match[3].length > 4 ? 1 : match[3].length || 1;
    const inset = match[1].length + match[2].length + wide;
    const inner = [match[3].length > 4 ? match[3].slice(1) + match[4] : match[4]];
    at += 1;
    while (at < lines.length) {
      const line = lines[at];
      const indent = /^[ \t]*/.exec(line)[0].replace(/\t/g, "    ").length;
      if (!line.trim()) {
        const next = lines[filled(lines, at + 1)];
        if (next === undefined || /^ */.exec(next)[0].length < inset) break;
        loose = true;
        inner.push("");
      } else if (indent >= inset) {
        inner.push(line.replace(/\t/g, "    ").slice(inset));
      } else if (indent > match[1].length && ITEM.test(line.trimStart())) {
        // Lists indented by less than their marker are common in what models write.
        inner.push(line.slice(Math.min(indent, match[1].length + 2)));
      } else if (ITEM.test(line) || starts(lines, at) || !inner.at(-1).trim()) {
        break;
      } else {
        inner.push(line.trimStart());
      }
      at += 1;
    }
    const task = /^\[([ xX])\][ \t]+/.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    const shown = blocks(inner, depth + 1);
    const item = h("li", { class: task ? "task" : "" });
    if (task) item.append(h("span", { class: "tick", role: "img", "aria-label": task[1] === " " ? "open" : "done" }, task[1] === " " ? "☐" : "☑"), " ");
    for (const [place, node] of shown.entries()) {
      // A tight item has no paragraph of its own.
      if (!loose && place === 0 && node.tagName === "P" && !node.className) item.append(...node.childNodes);
      else item.append(node);
    }
    list.append(item);
    // Blank lines between items belong to the list if an item follows.
    const next = filled(lines, at);
    if (next > at && next < lines.length) {
      const follows = ITEM.exec(lines[next]);
      if (!follows || follows[2].slice(-1) !== kind) break;
      at = next;
    }
  }
  return [list, at];
}

/** Return the index of the next line that is not blank. */
function filled(lines, at) {
  while (at < lines.length && !lines[at].trim()) at += 1;
  return at;
}

function cells(line) {
  const parts = [];
  let cell = "";
  let ticks = false;
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\" && text[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (text[at] === "|" && !ticks) {
      parts.push(cell.trim());
      cell = "";
    } else {
      if (text[at] === "`") ticks = !ticks;
      cell += text[at];
    }
  }
  if (cell.trim()) parts.push(cell.trim());
  return parts;
}

function tableAt(lines, at) {
  return (
    at + 1 < lines.length && lines[at].includes("|") && lines[at + 1].includes("-") && DIVIDER.test(lines[at + 1]) &&
    lines[at + 1].includes("|") && cells(lines[at]).length === cells(lines[at + 1]).length
  );
}

function table(lines, start) {
  const heads = cells(lines[start]);
  const sides = cells(lines[start + 1]).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "middle" : "right") : ""));
  const rows = [];
  let at = start + 2;
  while (at < lines.length && lines[at].trim() && lines[at].includes("|")) rows.push(cells(lines[at++]));
  const cell = (tag, text, place) => h(tag, { class: sides[place] || "", scope: tag === "th" ? "col" : undefined }, inline(text));
  return [
    h(
      "div",
      { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, heads.map((text, place) => cell("th", text, place)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, heads.map((_, place) => cell("td", row[place] || "", place))))),
      ),
    ),
    at,
  ];
}

const ADDRESS = /^(?:https?:\/\/|mailto:)/i;
const BARE = /https?:\/\/[^\s<>"'`]+[^\s<>"'`.,;:!?)\]}*_]/y;

/** Return a link; anything but a web or mail address is shown as text, with the address that it would have. */
export function link(address, label) {
  const target = address.trim();
  let parsed = null;
  try {
    parsed = ADDRESS.test(target) ? new URL(target) : null;
  } catch {
    parsed = null;
  }
  if (!parsed || !["http:", "https:", "mailto:"].includes(parsed.protocol)) return h("span", {}, label, target ? ` (${target})` : "");
  return h("a", { href: parsed.href, rel: "noopener noreferrer nofollow", target: "_blank", title: parsed.href }, label);
}

/** Return the nodes of a line of text. */
export function inline(text, depth = 0) {
  const out = [];
  let plain = "";
  const flush = () => {
    if (plain) out.push(document.createTextNode(plain));
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    const taken = depth > DEEPEST ? null : special(text, at, char, depth, plain);
    if (taken) {
      flush();
      out.push(...taken.nodes);
      at = taken.next;
    } else if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] || "")) {
      plain += text[at + 1];
      at += 2;
    } else if (char === "\n") {
      const hard = / {2,}$|\\$/.test(plain);
      plain = plain.replace(/(?: +|\\)$/, "");
      flush();
      out.push(hard ? h("br") : document.createTextNode("\n"));
      at += 1;
    } else {
      plain += char;
      at += 1;
    }
  }
  flush();
  return out;
}

function special(text, at, char, depth, before) {
  if (char === "`") {
    const ticks = /^`+/.exec(text.slice(at))[0];
    let tries = 0;
    for (let end = text.indexOf(ticks, at + ticks.length); end >= 0 && tries < TRIES; end = text.indexOf(ticks, end + 1)) {
      tries += 1;
      if (text[end + ticks.length] === "`" || text[end - 1] === "`") continue;
      const inner = text.slice(at + ticks.length, end).replace(/\n/g, " ");
      const code = /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner;
      return { nodes: [h("code", {}, code)], next: end + ticks.length };
    }
    return { nodes: [document.createTextNode(ticks)], next: at + ticks.length };
  }
  if (char === "*" || char === "_") return emphasis(text, at, char, depth);
  if (char === "~" && text[at + 1] === "~") {
    const end = text.indexOf("~~", at + 2);
    if (end > at + 2) return { nodes: [h("del", {}, inline(text.slice(at + 2, end), depth + 1))], next: end + 2 };
  }
  if (char === "[" || (char === "!" && text[at + 1] === "[")) return bracketed(text, at, depth);
  if (char === "<") {
    const address = /^<((?:https?:\/\/|mailto:)[^<>\s]+)>/i.exec(text.slice(at, at + 2048));
    if (address) return { nodes: [link(address[1], address[1])], next: at + address[0].length };
  }
  if (char === "h" && !/[\p{L}\p{N}_]$/u.test(before)) {
    BARE.lastIndex = at;
    const found = BARE.exec(text);
    if (found) return { nodes: [link(found[0], found[0])], next: at + found[0].length };
  }
  return null;
}

// How many possible ends of a mark are tried: text that is all marks must not take for ever.
const TRIES = 60;

function emphasis(text, at, char, depth) {
  let length = 1;
  while (length < 3 && text[at + length] === char) length += 1;
  const run = char.repeat(length);
  const inWord = (place) => char === "_" && /[\p{L}\p{N}]/u.test(text[place] || "");
  if (/\s/.test(text[at + length] || " ") || text[at + length] === char || inWord(at - 1)) return null;
  let end = text.indexOf(run, at + length);
  for (let tries = 0; end >= 0 && tries < TRIES; tries++) {
    let marks = length;
    while (text[end + marks] === char) marks += 1;
    // `*a **b** c*`: two are an emphasis of their own; `**a *b***`: the last two of three are this one's.
    const place = end + marks - length;
    const fits = marks === length || marks === 3;
    if (fits && !/\s/.test(text[end - 1]) && text[end - 1] !== "\\" && !inWord(end + marks)) {
      const inner = inline(text.slice(at + length, place), depth + 1);
      const node = length === 1 ? h("em", {}, inner) : h("strong", {}, length === 2 ? inner : h("em", {}, inner));
      return { nodes: [node], next: place + length };
    }
    end = text.indexOf(run, end + marks);
  }
  return { nodes: [document.createTextNode(run)], next: at + length };
}

function bracketed(text, at, depth) {
  const image = text[at] === "!";
  const start = at + (image ? 2 : 1);
  let level = 1;
  let end = start;
  for (; end < text.length && level; end++) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === "[") level += 1;
    else if (text[end] === "]") level -= 1;
    if (end - start > 2000) return null;
  }
  if (level || text[end] !== "(") return null;
  const target = /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(end, end + 4096));
  if (!target) return null;
  const label = text.slice(start, end - 1);
  const address = target[1] ?? target[2];
  // An image is not fetched: that would tell its server who reads this.
  const nodes = image ? [link(address, `Image: ${label || address}`)] : [link(address, label ? inline(label, depth + 1) : address)];
  return { nodes, next: end + target[0].length };
}
