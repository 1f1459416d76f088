"""Copy the pages for the documentation site: `make docs` builds site/ from what this writes to .site/.

A link to another file of the repository becomes a link to it on the web. CHANGELOG.md and CONTRIBUTING.md become pages.
Only the standard library is needed.
"""

from __future__ import annotations

import html
import re
import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / ".site"
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")

_CODE_WITH_BAR = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")


def for_the_site(text: str, folder: str, repository: str) -> str:
    """Return a page with links as the site needs them. folder: of the page, below the root."""

    def code(match: re.Match[str]) -> str:
        # Python-Markdown keeps the backslash before a bar in the code of a table.
        return f"<code>{html.escape(match[1].replace(chr(92) + '|', '|')).replace('|', '&#124;')}</code>"

    def link(match: re.Match[str]) -> str:
        path = (ROOT / folder / match[1]).resolve().relative_to(ROOT).as_posix()
        if path.startswith("docs/"):
            return path.removeprefix("docs/")
        return PAGES.get(path) or f"{repository}/blob/main/{path}"

    return _CODE_WITH_BAR.sub(code, _LINK.sub(link, text))


def main() -> None:
    """Write the pages to .site/."""
    repository = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["repo_url"]
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "docs", TARGET, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    sources = {TARGET / page.name: page for page in (ROOT / "docs").glob("*.md")}
    sources |= {TARGET / name: ROOT / path for path, name in PAGES.items()}
    for target, source in sources.items():
        folder = source.parent.relative_to(ROOT).as_posix()
        target.write_text(for_the_site(source.read_text("utf-8"), folder, repository), "utf-8")


if __name__ == "__main__":
    main()
