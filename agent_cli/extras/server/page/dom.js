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

/** Return the content of a template of index.html. */
export function template(id) {
  return document.getElementById(id).content.cloneNode(true);
}

/** Return the one element of a template as `element`, and those in it that have a name (`data-part`) by it. */
export function parts(id) {
  const element = template(id).firstElementChild;
  return { element, ...Object.fromEntries([...element.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part])) };
}

/** Return an icon of index.html; it is hidden from assistive technology, so what it stands for needs a label beside it. */
export function icon(name, extra = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon ${extra}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const drawn = document.createElementNS(SVG, "use");
  drawn.setAttribute("href", `#icon-${name}`);
  svg.append(drawn);
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
      const write = navigator.clipboard?.writeText(typeof text === "function" ? text() : text);
      const done = await (write ?? Promise.reject()).then(() => true, () => false);
      pressed.replaceChildren(icon(done ? "check" : "cross"));
      announce(done ? "Copied." : "This browser did not allow copying.");
      setTimeout(() => pressed.replaceChildren(icon("copy")), 1500);
    },
  });
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
