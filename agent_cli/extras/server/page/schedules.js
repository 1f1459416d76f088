// The dialog of schedules: when each runs next, how its last run ended, what waits; pause, run, remove, add.

import { button, confirmed, h, labelled, loaded, toast } from "./dom.js";
import { get, post } from "./api.js";
import { oneLine, shorten, visible, whenExactly } from "./text.js";

const path = (schedule) => `/v1/schedules/${encodeURIComponent(schedule.id)}`;
// As the clock of its zone shows it.
const when = ({ next, zone, paused }) => (next ? `${next.slice(0, 10)} ${next.slice(11, 16)} (${zone})` : paused ? "Paused" : "Never");
const money = (cost) => (cost ? ` · $${cost.toFixed(2)}` : "");

export function showSchedules(sessions, { canStart }) {
  let opened = "";
  const open = loaded("Schedules", draw, { wide: true });

  async function draw() {
    const { schedules } = await get("/v1/schedules");
    return [
      schedules.length ? schedules.map(row) : h("p", { class: "hint" }, "There are no schedules in these projects."),
      canStart ? adding() : null,
    ].flat();
  }

  async function act(work, said) {
    try {
      await work();
      if (said) toast(said);
      open.body.replaceChildren(...(await draw()).filter(Boolean));
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  function sessionLink(id, words) {
    return h("a", { href: `#/s/${encodeURIComponent(id)}`, on: { click: () => open.shown.close() } }, words);
  }

  function row(schedule) {
    const { last } = schedule;
    const facts = [
      ["Task", visible(schedule.prompt)],
      ["Folder", visible(schedule.folder)],
      ["Next", when(schedule)],
      ["Last", last ? [`${last.state}${last.state === "skipped" ? `: ${last.why}` : ""}${money(last.cost)}, ${whenExactly(last.at)} `, last.session_id ? sessionLink(last.session_id, "Open") : null] : "None yet"],
      ["Budget", schedule.budget && `$${schedule.budget} a day`],
      ["Always allowed", visible(schedule.rules.join(", "))],
    ].filter(([, text]) => text);
    const remove = async () => {
      const text = "Its rules are removed with it. Its sessions stay.";
      if (await confirmed({ title: "Remove this schedule?", text }, "Remove")) act(() => post(path(schedule), {}, "DELETE"));
    };
    return h(
      "details",
      { class: "fold", open: opened === schedule.id, on: { toggle: (event) => event.currentTarget.open && (opened = schedule.id) } },
      h("summary", {}, h("span", {}, `${visible(schedule.spec)} · ${shorten(oneLine(schedule.prompt), 60)}`), h("span", { class: "tag" }, schedule.state || when(schedule))),
      h(
        "div",
        { class: "fold-body" },
        schedule.state === "waiting" ? h("p", {}, "No run starts before this is decided: ", sessionLink(schedule.session_id, "Waiting for you")) : null,
        h("dl", { class: "facts-list" }, facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
        canStart
          ? h(
              "div",
              { class: "dialog-actions" },
              button("Remove", { kind: "danger", on: remove }),
              button(schedule.paused ? "Resume" : "Pause", { on: () => act(() => post(path(schedule), { paused: !schedule.paused }, "PATCH")) }),
              button("Run now", { on: () => act(() => post(`${path(schedule)}/run`), "Started.") }),
            )
          : null,
      ),
    );
  }

  function adding() {
    const spec = h("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: "200" });
    const prompt = h("textarea", { rows: "3" });
    const project = h("select", {}, sessions.projects.map(({ id, name }) => h("option", { value: id }, visible(name))));
    const given = () => ({ spec: spec.value, prompt: prompt.value, project: project.value });
    const add = () => act(async () => (opened = (await post("/v1/schedules", given())).id), "Added.");
    return h(
      "details",
      { class: "fold" },
      h("summary", {}, "Add a schedule"),
      h(
        "div",
        { class: "fold-body form" },
        labelled("When", spec, { hint: "weekdays 9:00, 15m, @daily, or five cron fields" }),
        labelled("Task", prompt),
        labelled("Project", project),
        h("div", { class: "dialog-actions" }, button("Add", { kind: "primary", on: add })),
      ),
    );
  }
}
