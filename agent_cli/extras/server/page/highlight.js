// Colour code: comments, strings, numbers and keywords of the usual languages, as text in spans.

import { h } from "./dom.js";

const KEYWORDS = {
  python: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return True try while with yield",
  javascript: "async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield enum implements readonly",
  shell: "if then else elif fi for in do done while until case esac function return export local set unset cd echo exit source sudo",
  go: "break case chan const continue default defer else fallthrough for func go goto if import interface map nil package range return select struct switch true false type var",
  rust: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
  c: "auto break case catch char class const continue default delete do double else enum extern false final finally float for goto if implements import include inline int interface long namespace new null nullptr override package private protected public return short signed sizeof static struct super switch template this throw true try typedef union unsigned using var virtual void volatile while bool boolean string",
  sql: "select from where and or not null insert into values update set delete create table drop alter index join left right inner outer on group by order limit as distinct primary key references default having union all exists in between like is",
  data: "true false null yes no on off",
};
const NAMES = {
  py: "python", python: "python", python3: "python", rb: "python", ruby: "python",
  js: "javascript", javascript: "javascript", ts: "javascript", typescript: "javascript", jsx: "javascript", tsx: "javascript", mjs: "javascript",
  sh: "shell", bash: "shell", shell: "shell", zsh: "shell", console: "shell", fish: "shell", makefile: "shell", dockerfile: "shell",
  go: "go", golang: "go", rs: "rust", rust: "rust",
  c: "c", h: "c", cpp: "c", cc: "c", "c++": "c", hpp: "c", java: "c", kt: "c", kotlin: "c", cs: "c", csharp: "c", swift: "c", php: "c", scala: "c", dart: "c",
  sql: "sql", json: "data", jsonc: "data", toml: "data", yaml: "data", yml: "data", ini: "data", css: "data",
};
const HASHES = new Set(["python", "shell", "data"]);
const LONGEST = 30_000;
const words = new Map();
const scanners = new Map();

export function languageOf(path) {
  const name = path.split("/").pop().toLowerCase();
  const known = NAMES[name.split(".").pop()];
  return known ? name.split(".").pop() : "";
}

function scanner(kind) {
  if (!scanners.has(kind)) {
    const comment = HASHES.has(kind) ? "(?<![\\w$\\\\])#[^\\n]*" : kind === "sql" ? "--[^\\n]*" : "//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)";
    const string = `"""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?${kind === "javascript" || kind === "go" ? "|`(?:\\\\.|[^`\\\\])*`?" : ""}`;
    scanners.set(kind, new RegExp(`(${comment})|(${string})|(\\b\\d[\\w.]*)|([A-Za-z_][\\w]*)`, "g"));
    words.set(kind, new Set(KEYWORDS[kind].split(" ")));
  }
  return scanners.get(kind);
}

/** Return code as nodes. */
export function highlighted(code, language) {
  const kind = NAMES[(language || "").toLowerCase()];
  if (!kind || code.length > LONGEST) return [document.createTextNode(code)];
  const out = [];
  const scan = scanner(kind);
  const known = words.get(kind);
  let at = 0;
  scan.lastIndex = 0;
  for (const found of code.matchAll(scan)) {
    const [text, comment, string, number, word] = found;
    const keyword = word && known.has(kind === "sql" ? word.toLowerCase() : word);
    const style = comment ? "c" : string ? "s" : number ? "n" : keyword ? "k" : "";
    if (!style) continue;
    if (found.index > at) out.push(document.createTextNode(code.slice(at, found.index)));
    out.push(h("span", { class: `code-${style}` }, text));
    at = found.index + text.length;
  }
  if (at < code.length) out.push(document.createTextNode(code.slice(at)));
  return out;
}
