// Dialogs about a session: its changes, undo, usage, export; and the keys of the page.

import { ask, button, confirmed, dialog, h, labelled, loaded, menu, template, toast } from "./dom.js";
import { get, getText, post, query } from "./api.js";
import { LineComments } from "./comments.js";
import { changeCount, fileView } from "./diff.js";
import { todoList } from "./items.js";
import { ago, counted, oneLine, visible, whenExactly } from "./text.js";

const base = (session) => `/v1/sessions/${encodeURIComponent(session.id)}`;

/** Show what a session has changed. comment: sends comments on lines to the model; null where the role may not. */
export function showChanges(session, comment, ship) {
  loaded(
    "Changes",
    async (shown) => {
      const { files } = await get(`${base(session)}/diff`);
      if (!files.length) return h("p", { class: "hint" }, "This session has not changed any file.");
      const sum = (name) => files.reduce((all, file) => all + (file[name] || 0), 0);
      const draw = () => {
        const { length } = comments.list();
        send.hidden = !length;
        send.lastChild.textContent = `Send ${counted(length, "comment")}`;
      };
      const comments = new LineComments(draw);
      const send = button("Send", {
        kind: "primary",
        on: async () => {
          send.disabled = true;
          if (await comment(comments.list())) shown.close();
          send.disabled = false;
        },
      });
      draw();
      return [
        h("p", { class: "hint" }, `${counted(files.length, "file")}, `, changeCount(sum("added"), sum("removed")), comment ? ". A line number opens a comment for the model." : ""),
        ...files.map((file) =>
          h(
            "details",
            { class: "fold", open: files.length <= 8 },
            h("summary", {}, h("span", { class: "path" }, visible(file.path)), h("span", { class: "tag" }, file.status), changeCount(file.added, file.removed)),
            h("div", { class: "fold-body" }, fileView(file, { heading: false, comments: comment ? comments : null })),
          ),
        ),
        h(
          "div",
          { class: "dialog-actions" },
          send,
          button("Commit and ship…", {
            on: () => {
              shown.close();
              ship();
            },
          }),
        ),
      ];
    },
    { wide: true },
  );
}

/** Show the plans of a session, each step with its evidence. */
export function showRecord(session) {
  const ran = ({ check, command, code, outcome, after, stale }) =>
    h(
      "li",
      { class: outcome },
      h("code", {}, visible(command)),
      `: ${code === null ? "killed" : `exit ${code}`}`,
      outcome === "unproven" ? ", which does not show the outcome" : "",
      check && after ? `, after ${visible(after)}` : "",
      stale ? `; ${visible(stale)} was changed after it` : "",
    );
  const done = ({ files, evidence, verdict_text: verdict }) => [
    verdict ? h("p", { class: "hint" }, verdict) : null,
    files.length ? h("p", {}, files.map((file) => [h("span", { class: "path" }, visible(file.path)), " ", changeCount(file.added, file.removed), " "])) : null,
    h("ul", { class: "file-list" }, evidence.map(ran)),
  ];
  const plan = ({ turn, approved, steps }) => [
    h("h3", {}, `Plan of turn ${turn}${approved ? `, approved by ${visible(approved)}` : ""}`),
    steps.map((step) => h("div", { class: "recorded" }, todoList([{ content: step.text, status: step.status === "dropped" ? "cancelled" : step.status }]), done(step))),
  ];
  loaded("Record", async () => {
    const { summary, plans, outside } = await get(`${base(session)}/record`);
    return [
      h("p", {}, visible(summary) || "Nothing was planned or changed."),
      plans.map(plan),
      outside ? [h("h3", {}, plans.length ? "For no step" : "Without a plan"), done(outside)] : null,
    ].flat(3);
  });
}

/** Return how many files an undo would restore; the others in its list are kept. */
const restoredOf = (point) => point.files.filter((file) => file.kind !== "kept").length;

export function showUndo(session) {
  loaded("Undo", async (shown) => {
    const { points } = await get(`${base(session)}/undo`);
    if (!points.length) return h("p", { class: "hint" }, "There is nothing to undo.");
    const preview = h("div", { class: "undo-preview", "aria-live": "polite" });
    const both = h("input", { type: "checkbox" });
    let chosen = null;
    const fileList = (files, row) => h("ul", { class: "file-list" }, files.map((file) => h("li", {}, row(file))));
    const path = (file) => h("span", { class: "path" }, visible(file.path));
    const choose = (point) => {
      chosen = point;
      go.disabled = false;
      const restored = restoredOf(point);
      preview.replaceChildren(
        h("h3", {}, restored ? `Restores ${counted(restored, "file")}` : "No file changes"),
        fileList(point.files, (file) => [h("span", { class: "tag" }, file.action), " ", path(file), file.kind === "kept" ? ` ${visible(file.why)}` : null]),
      );
    };
    const undo = async () => {
      go.disabled = true;
      try {
        const done = await post(`${base(session)}/undo`, { point: chosen.id, conversation: both.checked });
        const changed = counted(done.restored.length + done.deleted.length, "file");
        if (!done.skipped.length) {
          shown.close();
          toast(`Undone: ${changed} changed.`);
        } else preview.replaceChildren(h("p", {}, `Undone: ${changed}. Not changed:`), fileList(done.skipped, (file) => [path(file), ` ${visible(file.reason)}`]));
      } catch (error) {
        go.disabled = false;
        preview.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message));
      }
    };
    const go = button("Undo", { kind: "danger", disabled: true, on: undo });
    const only = points.length === 1;
    if (only) choose(points[0]);
    return [
      h(
        "fieldset",
        { class: "points" },
        h("legend", {}, "Restore the files to their state before"),
        points.map((point) =>
          h(
            "label",
            { class: "option" },
            h("input", { type: "radio", name: "undo-point", value: String(point.id), checked: only, on: { change: () => choose(point) } }),
            h(
              "span",
              {},
              h("span", { class: "option-label" }, oneLine(point.message) || "The start"),
              h("span", { class: "option-more" }, `${ago(point.time)} · ${counted(restoredOf(point), "file")}`),
            ),
          ),
        ),
      ),
      preview,
      h("label", { class: "check" }, both, h("span", {}, "Rewind the conversation as well")),
      h("div", { class: "dialog-actions" }, button("Cancel", { on: () => shown.close() }), go),
    ];
  });
}

/** Change something of a session; returns it, or null after a refusal, which is shown. */
export function change(session, what) {
  return post(base(session), what, "PATCH").catch((error) => {
    toast(error.message, "bad");
    return null;
  });
}

export function showRename(session) {
  const name = h("input", { type: "text", value: session.title, maxlength: "200" });
  const save = async (shown) => {
    await change(session, { name: name.value });
    shown.close();
  };
  ask("Rename", labelled("Name", name), "Rename", save);
  name.select();
}

export async function fork(session) {
  try {
    const copy = await post(`${base(session)}/fork`);
    location.hash = `#/s/${encodeURIComponent(copy.id)}`;
    toast("This is the copy.");
  } catch (error) {
    toast(error.message, "bad");
  }
}

export async function archive(session, archived) {
  if (await change(session, { archived })) toast(archived ? "Archived. The filter Archived lists it." : "Back in the list.");
}

/** Show what a project brings, to trust it as it is or no longer; calls `done` after a change. */
export function showTrust(project, done) {
  const path = `/v1/projects/${encodeURIComponent(project.id)}/trust`;
  loaded(`Trust ${visible(project.name)}?`, async (shown) => {
    const { trusted, state, brings, binding } = await get(path);
    const set = async () => {
      try {
        await post(path, { trusted: !trusted, binding });
        shown.close();
        done();
      } catch (error) {
        toast(error.message, "bad");
      }
    };
    return [
      h("p", {}, trusted ? `It is ${state}.` : "Once you trust it, these take effect until they change. They can run commands and widen what is allowed."),
      brings.length ? h("ul", { class: "bullets" }, brings.map((one) => h("li", {}, visible(one)))) : h("p", { class: "hint" }, "It brings nothing that needs trust."),
      h("div", { class: "dialog-actions" }, button("Cancel", { on: () => shown.close() }), button(trusted ? "Stop trusting it" : "Trust it", { kind: trusted ? "danger" : "primary", on: set })),
    ];
  });
}

export async function deleteSession(session) {
  const text = "Its messages, snapshots and saved results are deleted. The files of the project stay.";
  if (await confirmed({ title: "Delete this session?", text }, "Delete")) await post(base(session), {}, "DELETE").catch((error) => toast(error.message, "bad"));
}

export function showUsage(session) {
  const rows = [...(session.usage_rows || []), ["Started", whenExactly(session.created)]];
  dialog("Usage and cost", h("dl", { class: "facts-list" }, rows.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
}

const FORMATS = { Markdown: ["text/markdown", "md"], HTML: ["text/html", "html"], JSON: ["application/json", "json"] };

export function showExport(session) {
  const download = async (format) => {
    const [type, suffix] = FORMATS[format];
    const name = (oneLine(session.title) || session.id).replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 60);
    try {
      const text = await getText(`${base(session)}/export?format=${format.toLowerCase()}`);
      const address = URL.createObjectURL(new Blob([text], { type }));
      h("a", { href: address, download: `${name}.${suffix}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  menu("Export the conversation", Object.keys(FORMATS).map((format) => [format, () => download(format)]));
}

export function showKeys() {
  dialog("Keys", template("keys"));
}

/** Show the commands that a session knows, and the keys. */
export function showHelp(session) {
  loaded("Commands and keys", async () => {
    const { items } = await get(`/v1/completions${query({ before: "/", session: session.id })}`);
    const commands = h("dl", { class: "facts-list" }, items.map(({ text, help }) => [h("dt", {}, visible(text)), h("dd", {}, visible(help))]));
    return [h("div", { tabindex: "0", role: "group", "aria-label": "Commands" }, commands), ...template("keys").children];
  });
}
