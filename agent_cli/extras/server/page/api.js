// The server's API: requests with the token, and event streams that reconnect and never repeat a record.

import { recall, remember } from "./storage.js";

const KEY = "agent.token";

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message || `The server answered ${status}.`);
    this.status = status;
    this.code = error.code || "";
    this.details = error;
  }
}

let token = "";
const signedOut = new Set();
const connection = new Set();

/** Take the token out of the address, so that it is neither shown nor in the history, and return True if there is one. */
export function takeToken() {
  const given = /(?:^#|[#&?])token=([^&]+)/.exec(location.hash);
  if (given) {
    setToken(decodeURIComponent(given[1]));
    const rest = location.hash.replace(/[#&?]?token=[^&]+&?/, "");
    history.replaceState(null, "", `${location.pathname}${rest.startsWith("#") || !rest ? rest : `#${rest}`}`);
  } else {
    token = recall(KEY);
  }
  return Boolean(token);
}

/** Exchange a code in the address for a token of this device; resolves to why that failed, "" if it did not or there is none. */
export async function pair() {
  const code = /(?:^#|[#&?])pair=([^&]+)/.exec(location.hash)?.[1];
  if (!code) return "";
  history.replaceState(null, "", location.pathname);
  try {
    const device = navigator.userAgentData?.platform || /iPhone|iPad|Android|Mac|Windows|Linux/.exec(navigator.userAgent)?.[0] || "phone";
    setToken((await post("/v1/pair", { code: decodeURIComponent(code), device })).token);
    return "";
  } catch (error) {
    return error.message;
  }
}

export function setToken(given) {
  token = given.trim();
  remember(KEY, token);
}

export function onSignedOut(listener) {
  signedOut.add(listener);
}

/** Call the listener with true and false as the server is reached and lost. */
export function onConnection(listener) {
  connection.add(listener);
}

let reached = true;
function tell(now) {
  if (now === reached) return;
  reached = now;
  for (const listener of connection) listener(now);
}

async function send(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      ...options,
      cache: "no-store",
      credentials: "omit",
      headers: { Authorization: `Bearer ${token}`, ...options.headers },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    tell(false);
    throw new ApiError(0, { code: "offline", message: "The server cannot be reached. Nothing was sent; try again." });
  }
  tell(true);
  if (answer.ok) return answer;
  let error = {};
  try {
    error = (await answer.json()).error || {};
  } catch {
    // A proxy in between may answer without JSON.
  }
  if (answer.status === 401) for (const listener of signedOut) listener(error.message || "");
  throw new ApiError(answer.status, error);
}

export async function get(path, options) {
  return (await send(path, options)).json();
}

export async function getText(path) {
  return (await send(path)).text();
}

export async function post(path, body = {}, method = "POST") {
  const answer = await send(path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  return text ? JSON.parse(text) : {};
}

/** Send a file; returns what a message names it by. */
export async function upload(file, name) {
  const headers = { "Content-Type": "application/octet-stream" };
  return (await send(`/v1/uploads${query({ name })}`, { method: "POST", headers, body: file })).json();
}

export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

// The server sends something every 15 seconds; a connection that is silent for longer is dead.
const SILENCE = 40_000;
const LONGEST_WAIT = 10_000;

/**
 * Follow an event stream. on: called with (event, data, id) for each message. opened: called when it is connected.
 * after: called for the ID to resume behind. refused: called with the error of one that is not to be. Returns `{close}`.
 */
export function stream(path, { on, opened, after = () => "", refused = () => {} }) {
  let control = new AbortController();
  let closed = false;
  let wake = null;
  let failures = 0;

  async function follow() {
    while (!closed) {
      let alive = null;
      try {
        control = new AbortController();
        const id = after();
        const headers = { Accept: "text/event-stream", ...(id ? { "Last-Event-ID": id } : {}) };
        const watch = () => {
          clearTimeout(alive);
          alive = setTimeout(() => control.abort(), SILENCE);
        };
        watch();
        const answer = await send(path, { headers, signal: control.signal });
        failures = 0;
        if (opened) opened();
        await read(answer.body, watch);
      } catch (error) {
        if (closed) return;
        if (error instanceof ApiError && [401, 403, 404].includes(error.status)) {
          refused(error);
          return;
        }
      } finally {
        clearTimeout(alive);
      }
      if (closed) return;
      if (failures++) tell(false);
      const pause = Math.min(LONGEST_WAIT, 400 * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2);
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, failures === 1 ? 150 : pause);
      });
    }
  }

  async function read(body, watch) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let event = "message";
    let id = "";
    let data = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      watch();
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const raw of lines) {
        const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
        if (line === "") {
          if (data.length && !closed) on(event, JSON.parse(data.join("\n")), id);
          event = "message";
          id = "";
          data = [];
        } else if (line[0] !== ":") {
          const at = line.indexOf(":");
          const field = at < 0 ? line : line.slice(0, at);
          const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
          if (field === "data") data.push(text);
          else if (field === "event") event = text;
          else if (field === "id") id = text;
        }
      }
    }
  }

  const retry = () => {
    if (wake) wake();
  };
  const lost = () => {
    tell(false);
    control.abort();
  };
  const resume = () => {
    if (document.visibilityState === "visible") retry();
  };
  window.addEventListener("online", retry);
  window.addEventListener("offline", lost);
  document.addEventListener("visibilitychange", resume);
  follow();
  return {
    close() {
      closed = true;
      control.abort();
      retry();
      window.removeEventListener("online", retry);
      window.removeEventListener("offline", lost);
      document.removeEventListener("visibilitychange", resume);
    },
  };
}

/**
 * Follow an event stream once for all windows of this browser: it opens only a few connections to a server, and every
 * window would hold one for good. The window that has the lock reads; the others hear of it.
 */
export function sharedStream(path, { on, opened }) {
  if (!navigator.locks || !window.BroadcastChannel) return stream(path, { on, opened });
  const channel = new BroadcastChannel(`agent ${path}`);
  const waiting = new AbortController();
  let own = null;
  let release = () => {};
  channel.onmessage = ({ data }) => {
    if (data.opened) opened();
    else on(data.event, data.data);
  };
  const lead = () =>
    new Promise((resolve) => {
      release = resolve;
      own = stream(path, {
        on: (event, data) => {
          channel.postMessage({ event, data });
          on(event, data);
        },
        opened: () => {
          channel.postMessage({ opened: true });
          opened();
        },
      });
    });
  navigator.locks.request(`agent ${path}`, { signal: waiting.signal }, lead).catch(() => {});
  return {
    close() {
      waiting.abort();
      own?.close();
      release();
      channel.close();
    },
  };
}
