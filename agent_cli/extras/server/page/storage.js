// What this browser remembers of the page; where storage is switched off, it lasts as long as the page.

const kept = new Map();

export function recall(key) {
  try {
    return localStorage.getItem(key) || "";
  } catch {
    return kept.get(key) || "";
  }
}

/** Remember a text; "" forgets it. */
export function remember(key, text) {
  kept.set(key, text);
  try {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  } catch {
    // It is in `kept`.
  }
}
