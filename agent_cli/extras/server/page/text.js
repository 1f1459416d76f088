// Words, numbers and times, as the terminal writes them.

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
// eslint-disable-next-line no-control-regex
const ANSI = /\u001b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Return the escape of a character, as the terminal writes it. */
function code(char) {
  const point = char.codePointAt(0);
  const [letter, width] = point < 0x100 ? ["x", 2] : point < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${letter}${point.toString(16).padStart(width, "0")}`;
}

/**
 * Return what was said or printed without the escape sequences that colour it, and with controls and invisible characters
 * written out: nothing can reorder or hide what is read.
 */
export function visible(text) {
  return String(text ?? "").replace(ANSI, "").replace(/\r\n/g, "\n").replace(INVISIBLE, code);
}

export function oneLine(text) {
  return visible(text).replace(/\s+/g, " ").trim();
}

export function shorten(text, length) {
  const chars = [...text];
  return chars.length > length ? `${chars.slice(0, length - 1).join("").trimEnd()}…` : text;
}

export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return how long ago a time was, in words. */
export function ago(iso, now = Date.now()) {
  const then = Date.parse(iso);
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 7 * 86400) return `${Math.round(seconds / 86400)} d ago`;
  return new Date(then).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

export function whenExactly(iso) {
  const then = new Date(iso);
  return Number.isNaN(then.getTime()) ? "" : then.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export const STATES = {
  waiting: "Waiting for you",
  running: "Running",
  queued: "Queued",
  interrupted: "Interrupted",
  failed: "Failed",
  done: "Done",
  idle: "Idle",
};
