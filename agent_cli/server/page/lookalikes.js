// Text that a user approves, by the rules of the terminal (agent_tools/lookalikes.py): nothing is removed or hidden, and
// characters that look like others are written out.

import { code, relative, spelled } from "./text.js";

const FOREIGN = ["Greek", "Cyrillic", "Armenian", "Cherokee", "Coptic", "Lisu", "Deseret"];
// Letters of these scripts that can be mistaken for Latin letters or digits.
const TWINS = new Set(
  "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺϳϲνορυικαωτγϜаеорсухіјѕһԁӏѵԛԝүкАВЕКМНОРСТХУІЈЅҮԚԜӀҺԌѴօոսհզցյգՕՍՏԼղքᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏏᏒᏔᏚᏞᏟᏢᏦᏧᏳᏴᎵᏂᏙᏋⲀⲂⲈⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬⲟⲣⲥⲭꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ𐐄𐐎𐐐𐐛𐐠𐐬𐐴𐐿𐑀",
);
const WORD = /[\p{L}\p{M}\p{N}]+/gu;
const SCRIPTS = FOREIGN.map((name) => new RegExp(`\\p{Script=${name}}`, "u"));
const SENTENCES = FOREIGN.map((name) => new RegExp(`^[\\p{Script=${name}}\\p{M} ,.!?:"'«»-]$`, "u"));
const COMMAND_START = /(?:^|[;|&(`{\n])[ \t]*$/;

const PHONETIC = "\\u0250-\\u02af\\u1d00-\\u1dbf\\u01c0-\\u01c3\\u2100-\\u214f\\u24b6-\\u24e9\\u{1d400}-\\u{1d7ff}\\u{1f130}-\\u{1f189}";
const SIGNS =
  "\\u2024\\u2044\\u2215\\u29f8\\u2571\\u2236\\ua789\\u02d0\\u2010\\u2011\\u2212\\u02d7\\ufe63\\ufe68\\u2216\\u29f5\\u037e\\u05c3\\u0589\\u2223\\ua4f8\\u2039\\u203a\\u02bc\\u02c8\\u055a";
const SPACES = "\\u1680\\u2000-\\u200a\\u205f\\u2800\\u{16fe4}\\u{1d159}";
const OVERLAYS = "\\u0334-\\u0338\\u20d2\\u20d3\\u20d8-\\u20da\\u20e5\\u20e6\\u20ea\\u20eb";
const FULL_WIDTH = "\\u3000\\u3002\\uff01-\\uff65\\uffe0-\\uffe6";
const IDEOGRAPHIC = "\\u1100-\\u11ff\\u2e80-\\u2fdf\\u3001\\u3003-\\ua4cf\\uac00-\\ud7ff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const JOINING = "\\u0600-\\u109f\\u1780-\\u18af\\ua840-\\uabff\\ufb50-\\ufdff\\ufe70-\\ufeff";
const ODD = new RegExp(
  [
    `[${PHONETIC}${SIGNS}${SPACES}${OVERLAYS}]`,
    "(?<!«)[\\u00a0\\u202f](?![!?:;»%€])",
    // A dash that starts an option is not a dash between words.
    "(?<!\\S)[\\u2012-\\u2015](?=[\\p{L}\\p{N}])|[\\u2012-\\u2015](?=[-\\u2012-\\u2015])|(?<=[-\\u2012-\\u2015])[\\u2012-\\u2015]",
    `(?<![${FULL_WIDTH}${IDEOGRAPHIC}])[${FULL_WIDTH}]+(?![${FULL_WIDTH}${IDEOGRAPHIC}])`,
    `(?<![${JOINING}])[\\u200c\\u180b-\\u180f]`,
    `(?<![${JOINING}\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f])\\u200d|\\u200d(?![${JOINING}\\p{Extended_Pictographic}])`,
    "(?<!\\p{Extended_Pictographic}|[#*0-9](?=\\ufe0f\\u20e3))[\\ufe00-\\ufe0f]",
    `(?<![\\p{L}\\p{N}\\p{M}${JOINING}])[\\u0300-\\u036f]|(?<=\\p{M}\\p{M})[\\u0300-\\u036f]`,
  ].join("|"),
  "gu",
);

const spell = (text) => Array.from(text, code).join("");

/** Return text to approve: controls, invisible characters and those that pass for others are written out. */
export function exact(text) {
  const plain = String(text ?? "");
  const words = plain.replace(WORD, (word, at) => (isDeceiving(word, at, plain) ? Array.from(word, (c) => (TWINS.has(c) ? code(c) : c)).join("") : word));
  return spelled(words.replace(ODD, spell));
}

/** As `exact`, on one line. */
export function exactLine(text) {
  return exact(text).replace(/\s+/g, " ").trim();
}

function isDeceiving(word, at, text) {
  const scripts = SCRIPTS.flatMap((script, n) => (script.test(word) ? [n] : []));
  if (!scripts.length) return false;
  if (scripts.length > 1 || /\p{Script=Latin}|[0-9]/u.test(word)) return true;
  return Array.from(word).every((c) => TWINS.has(c)) && !isInSentence(word, at, text, SENTENCES[scripts[0]]);
}

/** Return true if a word is in a sentence of its script, with a letter that is unmistakably of that script. */
function isInSentence(word, at, text, own) {
  if (COMMAND_START.test(text.slice(Math.max(0, at - 200), at))) return false;
  const before = run(Array.from(text.slice(Math.max(0, at - 100), at)).reverse(), own);
  const after = run(Array.from(text.slice(at + word.length, at + word.length + 100)), own);
  return [...before, ...after].some((c) => /\p{L}/u.test(c) && !TWINS.has(c));
}

function run(chars, own) {
  const end = chars.findIndex((c) => !own.test(c));
  return end < 0 ? chars : chars.slice(0, end);
}

/** Return a permission rule as a choice names it: of commands what they allow, of files the path. */
export function ruleWords(rules, cwd) {
  const found = rules.match(/\w+\((?:[^()]|\([^()]*\))*\)|[^,]+/g) || [rules];
  return found.map((rule) => oneRule(rule.trim(), cwd)).filter(Boolean).join(", ");
}

function oneRule(rule, cwd) {
  const parts = /^(\w+)\((.*)\)$/s.exec(rule);
  if (!parts) return exactLine(rule);
  const [, tool, spec] = parts;
  if (spec.startsWith("//")) {
    const verb = ["Read", "Grep", "Glob", "LS"].includes(tool) ? "reading" : "changes to";
    return `${verb} ${exactLine(relative(spec.slice(1), cwd))}`;
  }
  if (spec.startsWith("domain:")) return exactLine(spec.slice(7));
  return exactLine(tool === "Bash" ? spec : rule);
}
