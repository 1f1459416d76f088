// Start a task: the form is in index.html.

import { button, dialog, h, template } from "./dom.js";
import { get, post, query } from "./api.js";
import { MessageField } from "./composer.js";
import { showImports } from "./imports.js";
import { showTrust } from "./panels.js";
import { recall, remember } from "./storage.js";
import { visible } from "./text.js";

const LAST = "agent.start";
// The choice that replaces the list by the whole one.
const MORE = "...";
const option = (value, label) => h("option", { value }, visible(label));

/** Ask for a task and start it; calls `started` with the session. */
export function startTask(sessions, started) {
  const { projects, modes } = sessions;
  if (!projects.length) {
    dialog("New task", h("p", {}, "This server offers no project. Start it in a project's folder, or add one to its settings."));
    return;
  }
  const go = button("Start", { kind: "primary", type: "submit", form: "start-form" });
  const others = button("Continue a session of another agent…", {
    kind: "small",
    on: () => {
      shown.close();
      showImports(chosen(), started);
    },
  });
  const shown = dialog("New task", template("start"), { actions: [button("Cancel", { on: () => shown.close() }), go] });
  const [form, about, apart, problem] = ["form", ".about", ".apart", ".problem"].map((one) => shown.querySelector(one));
  const { project, mode, model, worktree } = form.elements;
  project.append(...projects.map((one) => option(one.id, one.name)));
  mode.append(...modes.map(([value, label]) => option(value, label)));
  if (projects.some((one) => one.id === recall(LAST))) project.value = recall(LAST);
  const field = new MessageField({
    label: "Task", rows: 5, placeholder: "What should be done? / for commands, @ for files", key: "agent.draft.new", where: () => ({ project: project.value }), submit: () => form.requestSubmit(),
  });
  form.prepend(field.element);
  form.querySelector(".attach-line").prepend(field.attach);
  field.dropOn(shown);
  const chosen = () => sessions.project(project.value);
  const trust = button("See what it brings…", { kind: "small", on: () => showTrust(chosen(), () => sessions.reloadProjects().then(draw)) });
  about.after(trust);
  problem.before(h("div", {}, others));

  async function draw() {
    const one = chosen();
    about.textContent = `${visible(one.path)}${one.branch ? ` · ${visible(one.branch)}` : ""}${one.needs_trust ? " · not trusted, so its own settings and commands are ignored" : ""}`;
    trust.hidden = !one.needs_trust;
    apart.hidden = !one.git;
    if (!one.git) worktree.checked = false;
    mode.value = modes.some(([name]) => name === one.mode) ? one.mode : "default";
    await drawModels(one);
  }
  async function drawModels(one, all = "") {
    model.replaceChildren(option("", one.model ? `Default: ${one.model}` : "Default"));
    try {
      const list = await get(`/v1/models${query({ project: one.id, all })}`);
      if (chosen() !== one) return;
      const others = list.models.filter((each) => each.name !== list.default);
      model.replaceChildren(option("", list.default ? `Default: ${list.default}` : "Default"), ...others.map((each) => option(each.name, each.words)));
      if (list.more) model.append(option(MORE, `${list.more} older models ...`));
    } catch (error) {
      problem.textContent = error.message;
    }
  }
  project.addEventListener("change", draw);
  model.addEventListener("change", () => {
    if (model.value === MORE) drawModels(chosen(), "true");
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (field.pending) return;
    if (!field.text) {
      problem.textContent = "Say what should be done.";
      field.area.focus();
      return;
    }
    const { cost, minutes, rounds, worktree: separate, stage, ...words } = Object.fromEntries(new FormData(form));
    const limits = { cost: Number(cost), seconds: Math.round(Number(minutes) * 60), rounds: Math.round(Number(rounds)) };
    const given = Object.entries(words).filter(([, text]) => text.trim());
    go.disabled = true;
    problem.textContent = "";
    try {
      const session = await post("/v1/sessions", {
        ...Object.fromEntries(given.map(([name, text]) => [name, text.trim()])),
        prompt: field.text,
        ...(field.uploads.length && { uploads: field.uploads }),
        worktree: Boolean(separate),
        stage: Boolean(stage),
        budget: Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit > 0)),
      });
      remember(LAST, project.value);
      field.clear();
      shown.close();
      started(session);
    } catch (error) {
      problem.textContent = error.message;
      go.disabled = false;
    }
  });
  field.area.focus();
  draw();
}
