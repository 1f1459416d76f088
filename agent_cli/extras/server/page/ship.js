// The steps from a change to a pull request: each shows its facts and is approved by itself.

import { get, post } from "./api.js";
import { announce, button, h, icon, labelled, loaded, toast } from "./dom.js";
import { hunkPicker } from "./diff.js";
import { counted, visible } from "./text.js";

/** Show the steps of a session; a step that was taken is followed by the next one. mayStart: the role may take them. */
export function showShip(session, mayStart) {
  const path = `/v1/sessions/${encodeURIComponent(session.id)}/ship`;
  const draw = async () => {
    const { steps } = await get(path);
    return steps.map((step) => section(step, { path, mayStart, again: () => draw().then((drawn) => body.replaceChildren(...drawn)) }));
  };
  const { body } = loaded("Commit and ship", draw, { wide: true });
}

function section(step, { path, mayStart, again }) {
  const head = h("h3", {}, visible(step.title));
  if (step.why) return h("section", { class: "step off" }, head, h("p", { class: "hint" }, visible(step.why)));
  const subject = step.step === "pull_request" ? h("input", { type: "text", value: step.subject, maxlength: "200" }) : null;
  const text = step.step === "push" ? null : h("textarea", { rows: "4", value: step.text });
  const all = step.hunks.length;
  const label = () => {
    const { size } = picked.chosen;
    go.lastChild.textContent = size < all ? `${step.button} ${size} of ${all} changes` : step.button;
    go.disabled = !size;
  };
  const picked = all > 1 ? hunkPicker(step.hunks, { legend: `${counted(all, "change")}: untick what should not be committed`, disabled: !mayStart, changed: label }) : null;
  const hunks = () => (picked && picked.chosen.size < all ? [...picked.chosen].sort((a, b) => a - b) : undefined);
  const problem = h("p", { class: "problem", role: "alert" });
  const busy = async (pressed, act) => {
    pressed.disabled = true;
    problem.textContent = "";
    try {
      await act();
    } catch (error) {
      problem.textContent = visible(error.message);
      if (error.code === "changed") await again();
    } finally {
      pressed.disabled = false;
    }
  };
  const take = () =>
    busy(go, async () => {
      const { done, url } = await post(path, { step: step.step, binding: step.binding, title: subject?.value || "", text: text?.value || "", hunks: hunks() });
      toast(visible(done));
      announce(visible(done));
      await again();
      if (/^https?:/.test(url)) window.open(url, "_blank", "noopener");
    });
  const propose = () =>
    busy(ask, async () => {
      text.value = (await post(`${path}/message`)).text;
      text.rows = Math.min(12, text.value.split("\n").length + 1);
    });
  const go = button(step.button, { kind: "primary", on: take });
  const ask = step.step === "commit" ? button("Propose a message", { kind: "small", on: propose }) : null;
  const list = (items, kind = "") => (items.length ? h("ul", { class: `effects ${kind}` }, items.map((one) => h("li", {}, visible(one)))) : null);
  const words = { commit: "Message", pull_request: "Description" }[step.step];
  return h(
    "section",
    { class: "step" },
    head,
    step.warnings.length ? h("ul", { class: "warnings", "aria-label": "Warnings" }, step.warnings.map((one) => h("li", {}, icon("warn"), h("span", {}, visible(one))))) : null,
    list(step.items, "step-items"),
    list(step.facts, "dim"),
    picked?.element,
    mayStart && subject ? labelled("Title", subject) : null,
    mayStart && text ? labelled(words, text) : null,
    problem,
    mayStart ? h("div", { class: "step-buttons" }, ask, go) : null,
  );
}
