// Fold the records of a session into what a reader sees: messages, calls with their results, notes.

import { counted, shortCount, shortDuration, shorten, dollars, oneLine } from "./text.js";

// Beginnings of messages that the program writes on its own.
const SYNTHETIC_PREFIXES = [
  "<commit>", "<compacted>", "<hook_", "<memory_", "<pinned>", "<plan_", "<project_memory", "<reminder>",
  "<session_change>", "<undo>", "<user_command>", "<workspace_change>", "[Background command ", "(A message was lost here",
];
const FEEDBACK = /^<plan_feedback>\n[\s\S]*\n\nThe user's feedback:\n([\s\S]*)\n\n[^\n]+\n<\/plan_feedback>$/;
const PLAN_MODE = /\n\n<plan_mode>\n(?:(?!<\/?plan_mode>)[\s\S])*<\/plan_mode>\s*$/;

/** Return the user's own words in a message; "" where the program wrote it. */
export function userText(text) {
  const own = text.replace(PLAN_MODE, "");
  const feedback = FEEDBACK.exec(own);
  if (feedback) return feedback[1];
  if (SYNTHETIC_PREFIXES.some((start) => own.startsWith(start))) return "";
  return own.split(/\n\n<file path=/)[0];
}

/** Return a result in a few words; "" if only its display says it. */
export function shortResult(display) {
  switch (display?.type) {
    case "CommandOutput": {
      const code = display.exit_code ? `exit code ${display.exit_code}, ` : display.exit_code === null ? `${display.note || "stopped"}, ` : "";
      const more = display.exit_code === null ? [] : (display.note || "").split("; ").slice(1);
      return [`${code}${shortDuration(display.seconds || 0)}`, ...more.map(oneLine)].join("; ");
    }
    case "Listing":
      return `${((display.lines || []).length + (display.more || 0)).toLocaleString("en")} found`;
    case "FileView":
      return display.lines === display.total ? counted(display.total, "line") : `${display.lines.toLocaleString("en")} of ${counted(display.total, "line")}`;
    case "Note":
      return display.text.length <= 100 && !display.text.trim().includes("\n") ? oneLine(display.text) : "";
    case "Diff":
      return `+${display.added || 0} -${display.removed || 0}`;
    case "Diffs": {
      const sum = (name) => display.files.reduce((all, file) => all + (file[name] || 0), 0);
      return `${counted(display.files.length, "file")}, +${sum("added")} -${sum("removed")}`;
    }
    default:
      return "";
  }
}

/** Return the files that a display shows changes of. */
export function filesOf(display) {
  return display?.type === "Diff" ? [display] : display?.type === "Diffs" ? display.files : [];
}

export class Transcript {
  constructor(prefix = "") {
    this.items = [];
    this.calls = new Map();
    this.prefix = prefix;
  }

  /** Add a record; returns the items that are new or have changed. */
  add(seq, time, event) {
    const handler = this[`on${event.type}`];
    if (!handler) return [];
    try {
      return handler.call(this, event, `${this.prefix}${seq}`, time);
    } catch (error) {
      // One odd record must not hide all the others.
      console.error(error);
      return this.note(`${this.prefix}${seq}-unread`, "A record of this session could not be read.", "warn");
    }
  }

  put(item) {
    item.rev = 0;
    this.items.push(item);
    return [item];
  }

  note(key, text, style = "dim", more = "") {
    return this.put({ key, kind: "note", text, style, more });
  }

  call(callId, tool = "", summary = "") {
    let item = this.calls.get(callId);
    if (!item) {
      item = { key: `${this.prefix}call-${callId}`, kind: "call", callId, tool, summary: summary || tool, state: "requested", children: null };
      this.calls.set(callId, item);
      this.put(item);
    }
    return item;
  }

  change(callId, changes) {
    const item = this.call(callId);
    Object.assign(item, changes);
    item.rev += 1;
    return [item];
  }

  onMessageAdded({ message }, key, time) {
    if (message.type === "UserMessage") {
      const text = userText(message.text || "");
      if (!text && !(message.media || []).length) return [];
      return this.put({ key, kind: "user", text, media: message.media || [], time });
    }
    if (message.type === "ToolMessage") {
      this.call(message.call_id, message.name);
      return this.change(message.call_id, { result: message.text, media: message.media || [] });
    }
    const made = [];
    for (const [place, part] of (message.parts || []).entries()) {
      if (part.type === "Text" && part.text.trim()) made.push(...this.put({ key: `${key}-${place}`, kind: "answer", text: part.text, time }));
      else if (part.type === "Thinking" && part.text) made.push(...this.put({ key: `${key}-${place}`, kind: "thinking", text: part.text }));
    }
    return made;
  }

  onToolRequested({ call_id: id, tool, summary, arguments: given }) {
    this.call(id, tool, summary);
    return this.change(id, { tool, summary, arguments: given });
  }

  onApprovalRequested(event) {
    return this.change(event.call_id, { summary: event.summary, tool: event.tool, preview: event.preview, state: "waiting", decision: null });
  }

  onApprovalResolved(event) {
    if (event.decision === "defer") return [];
    const byUser = event.by === "person";
    const state = event.decision === "reject" ? "denied" : "requested";
    return this.change(event.call_id, { state, decision: byUser || state === "denied" ? { ...event, byUser } : null });
  }

  onQuestionAsked(event) {
    // A review comes before its call: until that, the line has the question's title.
    const summary = this.call(event.call_id).summary || event.data?.title || "";
    return this.change(event.call_id, { summary, state: "waiting", question: event, answered: null });
  }

  onQuestionAnswered(event) {
    return event.verdict === "defer" ? [] : this.change(event.call_id, { state: "done", answered: event });
  }

  onToolStarted({ call_id: id, tool }) {
    return this.change(id, { state: "running", tool });
  }

  onToolFinished(event) {
    const item = this.call(event.call_id, event.tool);
    const ran = event.display?.type === "CommandOutput" ? event.display : null;
    const failed = event.is_error || (ran !== null && (ran.exit_code !== 0 || ran.check_failed));
    const denied = item.state === "denied";
    return this.change(event.call_id, {
      state: denied ? "denied" : failed ? "failed" : "done",
      display: event.display,
      seconds: event.duration_ms / 1000,
      progress: "",
    });
  }

  onSubagentEvent({ agent, call_id: id, event }, key, time) {
    const item = this.call(id, "Task", `Sub-agent ${agent}`);
    item.agent = agent;
    item.children ??= new Transcript(`${item.key}/`);
    item.children.add(key, time, event);
    if (event.type === "UsageAdded") item.tokens = (item.tokens || 0) + (event.usage.input || 0) + (event.usage.output || 0);
    item.rev += 1;
    return [item];
  }

  onPlanChanged() {
    return [];
  }

  onPlanContinued(_, key) {
    return this.note(key, "The plan has open steps; continuing.");
  }

  onCompacted(event, key) {
    const sizes = event.tokens_before ? `: ${shortCount(event.tokens_before)} to ${shortCount(event.tokens_after || 0)} tokens` : "";
    const what = event.trigger === "clear" || !event.summary ? "Old results were shortened" : "The conversation was compacted";
    return this.note(key, `${what}${sizes}.`, "dim", event.summary || "");
  }

  onUncompacted(_, key) {
    return this.note(key, "The last compaction was undone.");
  }

  onPinned(event, key) {
    return this.note(key, `${event.on === false ? "No longer pinned" : "Pinned"}: ${shorten(oneLine(event.text), 80)}`);
  }

  onRewound(_, key) {
    return this.note(key, "The conversation was rewound to an earlier message; what follows starts from there.", "warn");
  }

  onHookRan(event, key) {
    if ((event.outcome || "success") === "success") return [];
    const how = { blocked: "blocked this", cancelled: "was stopped", error: "failed" }[event.outcome];
    return this.note(key, `Hook ${event.name || event.event} ${how}${event.note ? `: ${event.note}` : "."}`, "warn");
  }

  onWarned(event, key) {
    return this.note(key, event.text, "warn");
  }

  onNoted(event, key) {
    return this.note(key, event.text);
  }

  onSessionNamed(event, key) {
    return event.model ? [] : this.note(key, `Renamed to “${oneLine(event.name)}”.`);
  }

  onMended(_, key) {
    return this.note(key, "The end of this session's log was damaged and has been repaired.", "warn");
  }

  onTurnFinished(event, key) {
    const changed = this.closeOpen(event.result === "Suspended");
    if (event.result === "Suspended" || this.prefix) return changed;
    if (event.failure) return [...changed, ...this.note(key, event.failure.message, "bad")];
    const reason = event.diagnostics?.terminal_reason || "";
    if (reason === "interrupted") return [...changed, ...this.note(key, "Interrupted. Say what to do instead, or continue.", "warn")];
    if (event.result === "MaxIterations") {
      const limit = reason.replace(/^max_/, "").replaceAll("_", " ");
      return [...changed, ...this.note(key, `Stopped: a limit was reached (${limit}). Say “continue” to go on.`, "warn")];
    }
    const usage = event.usage || {};
    const sums = [
      event.diagnostics?.duration_ms >= 1000 ? shortDuration(event.diagnostics.duration_ms / 1000) : "",
      usage.input || usage.output ? `${shortCount(usage.input || 0)} in, ${shortCount(usage.output || 0)} out` : "",
      usage.cost ? dollars(usage.cost) : "",
      event.verified || "",
    ];
    return [...changed, ...this.put({ key, kind: "end", text: sums.filter(Boolean).join(" · ") })];
  }

  /** Calls that were under way when a turn ended have no result. */
  closeOpen(suspended) {
    const changed = [];
    for (const item of this.calls.values()) {
      if (item.state === "running" && item.children) item.children.closeOpen(suspended);
      if (!suspended && (item.state === "running" || item.state === "requested" || item.state === "waiting")) {
        item.state = item.result ? "failed" : "stopped";
        item.rev += 1;
        changed.push(item);
      }
    }
    return changed;
  }
}
