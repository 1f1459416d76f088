// Apply the stored theme before the first paint. A classic script: modules run too late for that.
(() => {
  try {
    const theme = localStorage.getItem("agent.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be switched off; the system's theme applies.
  }
})();
