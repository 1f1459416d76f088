// Build the DOM. Text only ever becomes text nodes; nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element. props: `class`, `dataset`, `on` (event listeners), properties that exist on the element, and
 * attributes. children: nodes, texts, and lists of them; null, undefined and false are left out.
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  return append(parent, children);
}

const PATHS = {
  back: "M15 5l-7 7 7 7",
  plus: "M12 5v14M5 12h14",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6L6 18",
  stop: "M7 7h10v10H7z",
  play: "M8 5l11 7-11 7z",
  down: "M12 5v14M6 13l6 6 6-6",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 3v1M12 20v1M3 12h1M20 12h1M5.6 5.6l.7.7M17.7 17.7l.7.7M5.6 18.4l.7-.7M17.7 6.3l.7-.7",
  moon: "M20 14.5A8 8 0 019.5 4a8 8 0 1010.5 10.5z",
  auto: "M12 4a8 8 0 100 16 8 8 0 000-16zM12 4v16",
  bell: "M6 16V11a6 6 0 0112 0v5l1.5 2h-15zM10 21h4",
  warn: "M12 4l9 16H3zM12 10v4M12 17h.01",
  send: "M5 12h14M13 6l6 6-6 6",
  help: "M9 9a3 3 0 114.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5h.01",
  search: "M11 5a6 6 0 100 12 6 6 0 000-12zM15.5 15.5L20 20",
  skip: "M5 12h14",
  board: "M4 5h4v14H4zM10 5h4v9h-4zM16 5h4v6h-4z",
  clip: "M18 8l-8 8a3 3 0 01-4-4l8-8a2 2 0 013 3l-8 8a1 1 0 01-1-1l7-7",
  comment: "M5 6h14v10h-8l-4 4v-4H5z",
  dot: "M12 12h.01",
};

/** Return an icon; it is hidden from assistive technology, so what it stands for needs a label beside it. */
export function icon(name, extra = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon ${extra}`.trim());
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("focusable", "false");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** Return a button. label: its text, or with `icon` and `bare` its accessible name. */
export function button(label, { kind = "", icon: drawn, bare = false, on, ...more } = {}) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind} ${bare ? "bare" : ""}`.replace(/\s+/g, " ").trim(),
      "aria-label": bare ? label : undefined,
      title: bare ? label : undefined,
      on: on ? { click: on } : undefined,
      ...more,
    },
    drawn ? icon(drawn) : null,
    bare ? null : h("span", {}, label),
  );
}

export function copyButton(text, label = "Copy") {
  return button(label, {
    kind: "quiet small copy",
    icon: "copy",
    bare: true,
    on: async (event) => {
      const pressed = event.currentTarget;
      const done = await copyText(typeof text === "function" ? text() : text);
      pressed.replaceChildren(icon(done ? "check" : "cross"));
      announce(done ? "Copied." : "This browser did not allow copying.");
      setTimeout(() => pressed.replaceChildren(icon("copy")), 1500);
    },
  });
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain HTTP from another machine there is no clipboard API; the old command still works.
    const area = h("textarea", { class: "hidden-text", value: text, "aria-hidden": "true", tabindex: "-1" });
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") || document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

/** Say a sentence to assistive technology. */
export function announce(text) {
  const place = document.getElementById("announcer");
  if (place) place.textContent = text;
}

/** Show a short message that goes away by itself; errors stay longer. */
export function toast(text, kind = "") {
  const place = document.getElementById("toasts");
  const shown = h("div", { class: `toast ${kind}` }, text);
  place.append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? 9000 : 5000);
}

let fields = 0;

/** Return a field with its label, and a hint below. */
export function labelled(text, control, { hint = "", hidden = false } = {}) {
  if (!control.id) control.id = `field-${++fields}`;
  const noted = hint ? h("p", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (noted) control.setAttribute("aria-describedby", noted.id);
  return h("div", { class: "field" }, h("label", { for: control.id, class: hidden ? "hidden-text" : "" }, text), control, noted);
}

/**
 * Show a modal dialog and return it. The browser keeps the focus inside, closes it with Escape and returns the focus.
 */
export function dialog(title, body, { actions = [], wide = false } = {}) {
  const heading = `dialog-${++fields}`;
  const opener = document.activeElement;
  const shown = h(
    "dialog",
    { class: wide ? "wide" : "", "aria-labelledby": heading },
    h(
      "div",
      { class: "dialog-head" },
      h("h2", { id: heading }, title),
      button("Close", { kind: "quiet", icon: "cross", bare: true, on: () => shown.close() }),
    ),
    h("div", { class: "dialog-body", tabindex: "-1" }, body),
    actions.length ? h("div", { class: "dialog-actions" }, actions) : null,
  );
  shown.addEventListener("close", () => {
    shown.remove();
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  });
  shown.addEventListener("click", (event) => {
    if (event.target === shown) shown.close();
  });
  document.body.append(shown);
  shown.showModal();
  return shown;
}

/** Show a dialog whose body is loaded, and return it with the body. make: returns nodes, or rejects with an ApiError. */
export function loaded(title, make, options = {}) {
  const body = h("div", {}, h("p", { class: "hint" }, "Loading…"));
  const shown = dialog(title, body, options);
  make(shown)
    .then((nodes) => body.replaceChildren(...[nodes].flat().filter(Boolean)))
    .catch((error) => body.replaceChildren(h("p", { class: "problem", role: "alert" }, error.message)));
  return { shown, body };
}

/** Show a dialog of buttons that close it. choices: a label, what it does, and whether it is what holds now. */
export function menu(title, choices) {
  const pick = ([label, act, chosen]) =>
    button(label, {
      kind: "menu-item",
      icon: chosen ? "check" : undefined,
      "aria-current": chosen ? "true" : undefined,
      on: () => {
        shown.close();
        act();
      },
    });
  const shown = dialog(title, h("div", { class: "menu" }, choices.map(pick)));
}

/** Show a dialog with a button that does something, and one that does not. */
export function ask(title, body, label, act, kind = "primary") {
  const cancel = button("Cancel", { on: () => shown.close() });
  const shown = dialog(title, body, { actions: [cancel, button(label, { kind, on: () => act(shown) })] });
}

/** Ask whether something should be done; resolves to true for yes. */
export function confirmed({ title, text }, label) {
  return new Promise((resolve) => {
    const yes = (shown) => {
      resolve(true);
      shown.close();
    };
    ask(title, h("p", {}, text), label, yes, "danger");
  });
}
