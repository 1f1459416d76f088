// Features of the Agent SDK of npm, one each: node sdk_features.mjs NAME. Prints a line of JSON: true, or what was seen.
// A text that a request to the model has to contain is returned as { sent }.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const require = createRequire(process.env.AGENT_CLIENTS + "/npm/package.json");
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const sdk = await load("@anthropic-ai/claude-agent-sdk");
const { z } = await load("zod");
const { query } = sdk;
const bin = process.env.AGENT_BIN;

const user = (content) => ({ type: "user", message: { role: "user", content }, parent_tool_use_id: null, session_id: "" });
async function* say(...texts) {
  for (const text of texts) yield user(text);
}
const start = (prompt, options = {}) => query({ prompt, options: { pathToClaudeCodeExecutable: bin, ...options } });
async function run(prompt, options) {
  const seen = [];
  for await (const message of start(prompt, options)) seen.push(message);
  return seen;
}
const last = (seen) => seen.findLast((m) => m.type === "result");
const init = (seen) => seen.find((m) => m.subtype === "init");
const results = (seen) => seen.filter((m) => m.type === "user").map((m) => JSON.stringify(m.message.content)).join("\n");
const exactly = (word) => "Reply with exactly: " + word;
const allow = async (name, input) => ({ behavior: "allow", updatedInput: input });
const hook = (event, answer, matcher) => ({ [event]: [{ matcher, hooks: [answer] }] });
const made = () => existsSync("made.txt");
const touch = "Run the command: touch made.txt";
const bash = { allowedTools: ["Bash"] };

// A session that stays open: ask(text) returns the result of a turn.
function open(options) {
  const waiting = [];
  let wake = () => {};
  async function* messages() {
    while (true) {
      while (!waiting.length) await new Promise((resolve) => (wake = resolve));
      const text = waiting.shift();
      if (text === null) return;
      yield user(text);
    }
  }
  const q = start(messages(), options);
  const send = (text) => (waiting.push(text), wake());
  const until = async (test) => {
    while (true) {
      const { value, done } = await q.next();
      if (done) return undefined;
      if (test(value)) return value;
    }
  };
  const ask = async (text) => (send(text), (await until((m) => m.type === "result")).result);
  return { q, send, until, ask, close: () => (send(null), q.close()) };
}

const features = {
  stringPrompt: async () => last(await run(exactly("one"))).result === "one",
  streamedPrompt: async () => last(await run(say(exactly("one")))).result === "one",
  severalMessages: async () => {
    const s = open();
    const found = [await s.ask(exactly("one")), await s.ask(exactly("two"))];
    s.close();
    return found.join() === "one,two";
  },
  systemPrompt: async () => (await run(exactly("one"), { systemPrompt: "You are terse-42." }), { sent: "You are terse-42." }),
  appendedSystemPrompt: async () => {
    await run(exactly("one"), { systemPrompt: { type: "preset", preset: "claude_code", append: "Mind rule-43." } });
    return { sent: "Mind rule-43." };
  },
  model: async () => init(await run(exactly("one"), { model: "claude-haiku-4-5" })).model.includes("haiku"),
  maxTurns: async () => {
    const seen = [];
    try {
      for await (const m of start(touch, { ...bash, maxTurns: 1 })) seen.push(m);
    } catch {}
    return last(seen).subtype === "error_max_turns";
  },
  allowedTools: async () => (await run(touch, bash), made()),
  disallowedTools: async () => !init(await run(exactly("one"), { disallowedTools: ["Bash"] })).tools.includes("Bash"),
  onlyTools: async () => init(await run(exactly("one"), { tools: ["Read"] })).tools.filter((n) => ["Bash", "Write"].includes(n)).length === 0,
  permissionMode: async () => init(await run(exactly("one"), { permissionMode: "plan" })).permissionMode === "plan",
  bypassPermissions: async () =>
    (await run(touch, { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true }), made()),
  acceptEdits: async () => {
    await run("Use the Write tool to create the file " + process.cwd() + "/made.txt containing exactly the text hi", { permissionMode: "acceptEdits" });
    return readFileSync("made.txt", "utf8").trim() === "hi";
  },
  deniedWithoutAnswer: async () => last(await run(touch)).permission_denials[0].tool_name === "Bash" && !made(),
  canUseToolAllows: async () => (await run(say(touch), { canUseTool: allow }), made()),
  canUseToolDenies: async () => {
    const seen = await run(say(touch), { canUseTool: async () => ({ behavior: "deny", message: "Not on my watch." }) });
    return results(seen).includes("Not on my watch.") && !made();
  },
  canUseToolChangesInput: async () => {
    const canUseTool = async () => ({ behavior: "allow", updatedInput: { command: "touch other.txt" } });
    await run(say(touch), { canUseTool });
    return existsSync("other.txt") && !made();
  },
  canUseToolAddsRule: async () => {
    let asked = 0;
    const updatedPermissions = [{ type: "addRules", rules: [{ toolName: "Bash" }], behavior: "allow", destination: "session" }];
    const canUseTool = async (name, input) => (asked++, { behavior: "allow", updatedInput: input, updatedPermissions });
    const s = open({ canUseTool });
    await s.ask(touch);
    await s.ask("Run the command: touch again.txt");
    s.close();
    return asked === 1 && existsSync("again.txt");
  },
  askUserQuestion: async () => {
    const questions = [{ question: "Which?", header: "Which", multiSelect: false, options: [{ label: "A", description: "a" }, { label: "B", description: "b" }] }];
    const canUseTool = async (name, input) => ({ behavior: "allow", updatedInput: { ...input, answers: { "Which?": "B" } } });
    const seen = await run(say("Call the tool AskUserQuestion with " + JSON.stringify({ questions })), { canUseTool });
    return /Which\?.*B/.test(results(seen));
  },
  exitPlanMode: async () => {
    let plan = "";
    const canUseTool = async (name, input) => ((plan = name === "ExitPlanMode" ? input.plan : plan), { behavior: "allow", updatedInput: input });
    await run(say('Call the tool ExitPlanMode with {"plan": "Make it."}'), { canUseTool, permissionMode: "plan" });
    return plan === "Make it.";
  },
  hookRefusesCall: async () => {
    const answer = async () => ({ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "Never-44." } });
    const seen = await run(touch, { ...bash, hooks: hook("PreToolUse", answer, "Bash") });
    return results(seen).includes("Never-44.") && !made();
  },
  hookAllowsCall: async () => {
    const answer = async () => ({ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "allow" } });
    return (await run(touch, { hooks: hook("PreToolUse", answer) }), made());
  },
  hookChangesInput: async () => {
    const answer = async () => ({ hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "allow", updatedInput: { command: "touch other.txt" } } });
    await run(touch, { ...bash, hooks: hook("PreToolUse", answer) });
    return existsSync("other.txt") && !made();
  },
  hookMatcher: async () => {
    let called = 0;
    await run(touch, { ...bash, hooks: hook("PreToolUse", async () => (called++, {}), "Write|Edit") });
    return called === 0 && made();
  },
  hookAddsAfterCall: async () => {
    const answer = async () => ({ hookSpecificOutput: { hookEventName: "PostToolUse", additionalContext: "Seen-45." } });
    return (await run(touch, { ...bash, hooks: hook("PostToolUse", answer) }), { sent: "Seen-45." });
  },
  hookAddsToPrompt: async () => {
    const answer = async () => ({ hookSpecificOutput: { hookEventName: "UserPromptSubmit", additionalContext: "Extra-46." } });
    return (await run(exactly("one"), { hooks: hook("UserPromptSubmit", answer) }), { sent: "Extra-46." });
  },
  hookKeepsGoing: async () => {
    let stops = 0;
    const answer = async (data) => (stops++, data.stop_hook_active ? {} : { decision: "block", reason: exactly("again") });
    return last(await run(exactly("one"), { hooks: hook("Stop", answer) })).num_turns > 1 && stops === 2;
  },
  hookOfSubagents: async () => {
    const events = [];
    const note = async (data) => (events.push(data.hook_event_name), {});
    const prompt = "Use the Agent tool exactly once with subagent_type 'greeter'. Then reply with the single word DONE.";
    await run(prompt, { allowedTools: ["Agent", "Task"], agents: { greeter: { description: "Greets.", prompt: "Hi." } },
      hooks: { ...hook("SubagentStart", note), ...hook("SubagentStop", note) } });
    return events.join() === "SubagentStart,SubagentStop";
  },
  hookOfModelSwitch: async () => {
    const events = [];
    const s = open({ hooks: { ...hook("PreModelSwitch", async (d) => (events.push(d.source), {})), ...hook("PostModelSwitch", async (d) => (events.push(d.to_model), {})) } });
    await s.ask(exactly("one"));
    await s.q.setModel("claude-haiku-4-5");
    s.close();
    return events.join() === "sdk,claude-haiku-4-5";
  },
  ownTool: async () => {
    const echo = sdk.tool("echo", "Echo", { text: z.string() }, async ({ text }) => ({ content: [{ type: "text", text: text + "-47" }] }));
    const mcpServers = { mine: sdk.createSdkMcpServer({ name: "mine", tools: [echo] }) };
    await run(say("Call mcp__mine__echo with text='hello'"), { mcpServers, allowedTools: ["mcp__mine__echo"] });
    return { sent: "hello-47" };
  },
  ownToolFails: async () => {
    const echo = sdk.tool("echo", "Echo", { text: z.string() }, async () => { throw new Error("broken-48"); });
    const mcpServers = { mine: sdk.createSdkMcpServer({ name: "mine", tools: [echo] }) };
    await run(say("Call mcp__mine__echo with text='hello'"), { mcpServers, allowedTools: ["mcp__mine__echo"] });
    return { sent: "broken-48" };
  },
  agentOfSession: async () => {
    await run(exactly("one"), { agent: "critic", agents: { critic: { description: "Reviews.", prompt: "You are critic-49." } } });
    return { sent: "You are critic-49." };
  },
  subagent: async () => {
    const prompt = "Use the Agent tool exactly once with subagent_type 'greeter'. Then reply with the single word DONE.";
    const agents = { greeter: { description: "Greets.", prompt: "You are greeter-50." } };
    const seen = await run(prompt, { agents, allowedTools: ["Agent", "Task"] });
    return last(seen).result === "DONE" ? { sent: "You are greeter-50." } : last(seen);
  },
  forwardedSubagentText: async () => {
    const prompt = "Use the Agent tool exactly once with subagent_type 'greeter'. Then reply with the single word DONE.";
    const agents = { greeter: { description: "Greets.", prompt: "Hi." } };
    const seen = await run(prompt, { agents, allowedTools: ["Agent", "Task"], forwardSubagentText: true });
    return seen.some((m) => m.type === "assistant" && m.parent_tool_use_id && JSON.stringify(m.message.content).includes("lovely"));
  },
  partialMessages: async () =>
    (await run(exactly("one"), { includePartialMessages: true })).some((m) => m.type === "stream_event" && m.event.type === "content_block_delta"),
  structuredOutput: async () => {
    const schema = { type: "object", properties: { word_count: { type: "number" } }, required: ["word_count"] };
    return last(await run("Count.", { outputFormat: { type: "json_schema", schema } })).structured_output.word_count === 2;
  },
  sessionId: async () => {
    const id = "6f1c1b4e-5f0e-4f51-9f0c-9d3c1f1d2e3a";
    return last(await run(exactly("one"), { sessionId: id })).session_id === id;
  },
  resume: async () => {
    const id = last(await run(exactly("first-51"))).session_id;
    const second = last(await run(exactly("two"), { resume: id }));
    return second.session_id === id ? { sent: "first-51" } : second;
  },
  continued: async () => {
    const id = last(await run(exactly("one"))).session_id;
    return last(await run(exactly("two"), { continue: true })).session_id === id;
  },
  forkedSession: async () => {
    const id = last(await run(exactly("one"))).session_id;
    return last(await run(exactly("two"), { resume: id, forkSession: true })).session_id !== id;
  },
  notPersisted: async () => {
    await run(exactly("one"), { persistSession: false });
    return (await sdk.listSessions({ dir: process.cwd() })).length === 0;
  },
  listedSessions: async () => {
    const id = last(await run(exactly("one"))).session_id;
    return (await sdk.listSessions({ dir: process.cwd() })).map((s) => s.sessionId).includes(id);
  },
  messagesOfSession: async () => {
    const id = last(await run(exactly("one"))).session_id;
    return (await sdk.getSessionMessages(id, { dir: process.cwd() })).map((m) => m.type).join().startsWith("user,assistant");
  },
  renamedSession: async () => {
    const id = last(await run(exactly("one"))).session_id;
    await sdk.renameSession(id, "Mine", { dir: process.cwd() });
    return (await sdk.getSessionInfo(id, { dir: process.cwd() })).customTitle === "Mine";
  },
  deletedSession: async () => {
    const id = last(await run(exactly("one"))).session_id;
    await sdk.deleteSession(id, { dir: process.cwd() });
    let refused = false;
    try {
      await run(exactly("two"), { resume: id });
    } catch {
      refused = true;
    }
    return refused && (await sdk.listSessions({ dir: process.cwd() })).length === 0;
  },
  interrupt: async () => {
    const s = open(bash);
    s.send("Run the command: sleep 50");
    await s.until((m) => m.type === "assistant");
    await s.q.interrupt();
    const result = await s.until((m) => m.type === "result");
    const after = await s.ask(exactly("on"));
    s.close();
    return result.is_error === true && after === "on";
  },
  setModel: async () => {
    const s = open();
    await s.ask(exactly("one"));
    await s.q.setModel("claude-haiku-4-5");
    s.send(exactly("two"));
    const found = await s.until((m) => m.type === "assistant");
    s.close();
    return found.message.model.includes("haiku");
  },
  setPermissionMode: async () => {
    const s = open();
    await s.ask(exactly("one"));
    await s.q.setPermissionMode("acceptEdits");
    await s.ask("Use the Write tool to create the file " + process.cwd() + "/made.txt containing exactly the text hi");
    s.close();
    return made();
  },
  supportedCommands: async () => {
    const s = open();
    const found = (await s.q.supportedCommands()).map((c) => c.name);
    s.close();
    return found.includes("compact") && found.includes("greet");
  },
  supportedModels: async () => {
    const s = open();
    const found = await s.q.supportedModels();
    s.close();
    return found.every((m) => m.value && m.displayName) && found.length > 0;
  },
  supportedAgents: async () => {
    const s = open();
    const found = (await s.q.supportedAgents()).map((a) => a.name);
    s.close();
    return found.includes("general") && found.includes("explore");
  },
  mcpServers: async () => {
    const given = { type: "stdio", command: "false" };
    const s = open({ mcpServers: { given } });
    const names = async () => (await s.q.mcpServerStatus()).map((m) => m.name).join();
    const found = [await names()];
    await s.q.setMcpServers({ added: given });
    found.push(await names());
    await s.q.setMcpServers({});
    found.push(await names());
    s.close();
    return found.join(" ") === "given given,added given";
  },
  rewoundFiles: async () => {
    writeFileSync("a.txt", "one\n");
    const s = open({ permissionMode: "acceptEdits", enableFileCheckpointing: true, extraArgs: { "replay-user-messages": null } });
    s.send("Use the Write tool to create the file " + process.cwd() + "/made.txt containing exactly the text hi");
    const uuid = (await s.until((m) => m.type === "user" && !m.parent_tool_use_id && typeof m.message.content !== "undefined")).uuid;
    await s.until((m) => m.type === "result");
    const before = made();
    await s.q.rewindFiles(uuid);
    s.close();
    return before && !made();
  },
  plugins: async () => {
    mkdirSync("plug/.claude-plugin", { recursive: true });
    mkdirSync("plug/commands");
    writeFileSync("plug/.claude-plugin/plugin.json", JSON.stringify({ name: "plug" }));
    writeFileSync("plug/commands/hello.md", exactly("hello"));
    return last(await run("/plug:hello", { plugins: [{ type: "local", path: process.cwd() + "/plug" }] })).result === "hello";
  },
  slashCommand: async () => last(await run("/greet", { settingSources: ["user"] })).result === "greeted",
  settingSourcesNone: async () => !init(await run(exactly("one"), { settingSources: [] })).slash_commands.includes("greet"),
  inlineSettings: async () => {
    await run("Run the command: echo [$FROM_SETTINGS]", { ...bash, settings: JSON.stringify({ env: { FROM_SETTINGS: "x-52" } }) });
    return { sent: "[x-52]" };
  },
  environment: async () => {
    await run("Run the command: echo [$FROM_HOST]", { ...bash, env: { ...process.env, FROM_HOST: "x-53" } });
    return { sent: "[x-53]" };
  },
  additionalDirectories: async () => {
    const other = process.env.HOME + "/other";
    mkdirSync(other);
    await run("Use the Write tool to create the file " + other + "/made.txt containing exactly the text hi", { additionalDirectories: [other], permissionMode: "acceptEdits" });
    return existsSync(other + "/made.txt");
  },
  workingDirectory: async () => {
    mkdirSync("sub");
    await run(touch, { ...bash, cwd: process.cwd() + "/sub" });
    return existsSync("sub/made.txt");
  },
  standardError: async () => {
    const lines = [];
    await run(exactly("one"), { debug: true, stderr: (line) => lines.push(line) });
    return lines.length > 0;
  },
  aborted: async () => {
    const abortController = new AbortController();
    try {
      for await (const m of start("Run the command: sleep 50", { ...bash, abortController })) if (m.type === "assistant") abortController.abort();
    } catch (e) {
      return abortController.signal.aborted && /abort/i.test(String(e));
    }
    return abortController.signal.aborted;
  },
  budget: async () => {
    const seen = [];
    try {
      for await (const m of start(touch, { ...bash, maxBudgetUsd: 0.000001 })) seen.push(m);
    } catch {}
    return last(seen).subtype === "error_max_budget_usd";
  },
  thinking: async () =>
    (await run(exactly("one"), { thinking: { type: "enabled", budgetTokens: 2000 } })).some((m) => m.type === "assistant" && m.message.content.some((b) => b.type === "thinking")),
  costAndUsage: async () => {
    const found = last(await run(exactly("one")));
    return found.total_cost_usd > 0 && found.usage.input_tokens === 900 && Object.keys(found.modelUsage).length > 0;
  },
  failedRun: async () => {
    const seen = [];
    try {
      for await (const m of start(exactly("one"), { model: "claude-nonexistent" })) seen.push(m);
    } catch {}
    return last(seen).is_error === true;
  },
  images: async () => {
    const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const content = [{ type: "image", source: { type: "base64", media_type: "image/png", data } }, { type: "text", text: exactly("one") }];
    return last(await run(say(content))).result === "one" ? { sent: "image/png" } : false;
  },
  backgroundCommand: async () => {
    const s = open(bash);
    await s.ask('Call the tool Bash with {"command": "until [ -e go ]; do sleep 0.05; done", "run_in_background": true}');
    writeFileSync("go", "");
    const found = await s.until((m) => m.subtype === "task_notification");
    s.close();
    return found.status === "completed";
  },
  compaction: async () => {
    const s = open();
    await s.ask(exactly("one"));
    s.send("/compact");
    const found = await s.until((m) => m.subtype === "compact_boundary");
    s.close();
    return found.compact_metadata.trigger === "manual";
  },
  sessionStore: async () => {
    const sessionStore = new sdk.InMemorySessionStore();
    const id = last(await run(exactly("one"), { sessionStore, sessionStoreFlush: "eager" })).session_id;
    return last(await run(exactly("two"), { sessionStore, resume: id })).session_id === id;
  },
  elicitation: async () => {
    const asked = [];
    const onElicitation = async (request) => (asked.push(request.message), { action: "accept", content: { name: "main-54" } });
    const mcpServers = { form: { type: "stdio", command: process.env.FORM_SERVER.split(" ")[0], args: process.env.FORM_SERVER.split(" ").slice(1) } };
    await run(say("Call the tool mcp__form__ask with {}"), { mcpServers, allowedTools: ["mcp__form__ask"], onElicitation });
    return asked.length === 1 ? { sent: "main-54" } : asked;
  },
};

const name = process.argv[2];
const found = await features[name]();
console.log(JSON.stringify(found ?? null));
process.exit(0);
