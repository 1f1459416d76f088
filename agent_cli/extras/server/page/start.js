// Start a task.

import { button, dialog, h, labelled } from "./dom.js";
import { get, post, query } from "./api.js";
import { MessageField } from "./composer.js";
import { showTrust } from "./panels.js";
import { recall, remember } from "./storage.js";
import { visible } from "./text.js";

const LAST = "agent.start";
// The choice that replaces the list by the whole one.
const MORE = "...";

/** Ask for a task and start it; calls `started` with the session. */
export function startTask(sessions, started) {
  const { projects } = sessions;
  if (!projects.length) {
    dialog("New task", h("p", {}, "This server offers no project. Start it in a project's folder, or add one to its settings."));
    return;
  }
  const project = h("select", {}, projects.map((one) => h("option", { value: one.id }, visible(one.name))));
  if (projects.some((one) => one.id === recall(LAST))) project.value = recall(LAST);
  const field = new MessageField({
    label: "Task", rows: 5, placeholder: "What should be done? / for commands, @ for files", key: "agent.draft.new", where: () => ({ project: project.value }), submit: () => form.requestSubmit(),
  });
  const prompt = field.area;
  const model = h("select", {});
  const mode = h("select", {}, sessions.modes.map(([value, label]) => h("option", { value }, label)));
  const folder = h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "src" });
  const name = h("input", { type: "text", autocomplete: "off" });
  const cost = h("input", { type: "number", min: "0", step: "0.1", inputmode: "decimal" });
  const minutes = h("input", { type: "number", min: "0", step: "1", inputmode: "numeric" });
  const rounds = h("input", { type: "number", min: "0", step: "1", inputmode: "numeric" });
  const worktree = h("input", { type: "checkbox" });
  const apart = h("label", { class: "check" }, worktree, h("span", {}, "In a separate worktree, so that your files do not change"));
  const about = h("p", { class: "hint" });
  const trust = button("See what it brings…", { kind: "small", on: () => showTrust(chosen(), () => sessions.reloadProjects().then(draw)) });
  const problem = h("p", { class: "problem", role: "alert" });

  const chosen = () => sessions.project(project.value);
  async function draw() {
    const one = chosen();
    about.textContent = `${visible(one.path)}${one.branch ? ` · ${visible(one.branch)}` : ""}${one.needs_trust ? " · not trusted, so its own settings and commands are ignored" : ""}`;
    trust.hidden = !one.needs_trust;
    apart.hidden = !one.git;
    if (!one.git) worktree.checked = false;
    mode.value = sessions.modes.some(([name]) => name === one.mode) ? one.mode : "default";
    await drawModels(one);
  }
  async function drawModels(one, all = "") {
    const fallback = h("option", { value: "" }, one.model ? `Default: ${visible(one.model)}` : "Default");
    model.replaceChildren(fallback);
    try {
      const list = await get(`/v1/models${query({ project: one.id, all })}`);
      if (chosen() !== one) return;
      if (list.default) fallback.textContent = `Default: ${visible(list.default)}`;
      const others = list.models.filter((each) => each.name !== list.default);
      model.append(...others.map((each) => h("option", { value: each.name }, visible(each.words))));
      if (list.more) model.append(h("option", { value: MORE }, `${list.more} older models ...`));
    } catch (error) {
      problem.textContent = error.message;
    }
  }
  project.addEventListener("change", draw);
  model.addEventListener("change", () => {
    if (model.value === MORE) drawModels(chosen(), "true");
  });

  const form = h(
    "form",
    { class: "form", novalidate: true },
    field.element,
    h("div", { class: "attach-line" }, field.attach, h("span", { class: "hint" }, "Images and text files, also by paste or drop")),
    labelled("Project", project),
    h("div", { class: "about-project" }, about, trust),
    h("div", { class: "two" }, labelled("Mode", mode), labelled("Model", model)),
    apart,
    h(
      "details",
      { class: "fold" },
      h("summary", {}, "Limits, folder and name"),
      h(
        "div",
        { class: "fold-body form" },
        h("div", { class: "three" }, labelled("Dollars", cost), labelled("Minutes", minutes), labelled("Model calls", rounds)),
        labelled("Folder inside the project", folder),
        labelled("Name", name, { hint: "By default the program gives it a title." }),
      ),
    ),
    problem,
  );
  const go = button("Start", { kind: "primary" });
  go.type = "submit";
  go.setAttribute("form", (form.id = "start-form"));
  const shown = dialog("New task", form, { actions: [button("Cancel", { on: () => shown.close() }), go] });
  field.dropOn(shown);
  prompt.focus();
  draw();

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (field.pending) return;
    if (!prompt.value.trim()) {
      problem.textContent = "Say what should be done.";
      prompt.focus();
      return;
    }
    const limits = { cost: Number(cost.value), seconds: Math.round(Number(minutes.value) * 60), rounds: Math.round(Number(rounds.value)) };
    const budget = Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit > 0));
    const task = {
      prompt: field.text,
      uploads: field.uploads.length ? field.uploads : undefined,
      project: project.value,
      mode: mode.value,
      model: model.value || undefined,
      folder: folder.value.trim() || undefined,
      name: name.value.trim() || undefined,
      worktree: worktree.checked || undefined,
      budget: Object.keys(budget).length ? budget : undefined,
    };
    go.disabled = true;
    problem.textContent = "";
    try {
      const session = await post("/v1/sessions", task);
      remember(LAST, project.value);
      field.clear();
      shown.close();
      started(session);
    } catch (error) {
      problem.textContent = error.message;
      go.disabled = false;
    }
  });
}
