// Sessions of other agents in the folder of a project, each with a button that takes it over.

import { get, post } from "./api.js";
import { button, h, loaded } from "./dom.js";
import { ago, visible } from "./text.js";

/** List the sessions of a project that can be taken over; calls `opened` with the session that one became. */
export function showImports(project, opened) {
  const path = `/v1/projects/${encodeURIComponent(project.id)}/imports`;
  const problem = h("p", { class: "problem", role: "alert" });
  const { shown } = loaded(`Sessions of other agents in ${visible(project.name)}`, async () => {
    const { sessions } = await get(path);
    const none = h("p", { class: "hint" }, "There is no session of Claude Code, Codex, Gemini CLI or OpenCode in this folder.");
    return [sessions.length ? h("div", { class: "menu" }, sessions.map(row)) : none, problem];
  });
  const row = (session) =>
    button(`${session.name}, ${ago(session.updated)}: ${visible(session.title) || session.source_id}${session.taken_over_as ? " (taken over before)" : ""}`, {
      kind: "menu-item",
      on: async () => {
        problem.textContent = "";
        try {
          const made = await post(path, { program: session.program, source_id: session.source_id });
          shown.close();
          opened(made);
        } catch (error) {
          problem.textContent = error.message;
        }
      },
    });
}
