"""Commands, skills and other files of `.agent` and `.claude`."""

from __future__ import annotations

from pathlib import Path


def put(base: Path, name: str, text: str) -> Path:
    path = base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill(base: Path, name: str, body: str = "Do it well.", **head: str) -> Path:
    keys = "".join(f"{k.replace('_', '-')}: {v}\n" for k, v in {"description": f"For {name}.", **head}.items())
    return put(base, f".claude/skills/{name}/SKILL.md", f"---\nname: {name}\n{keys}---\n{body}\n")


def home_of(work: Path) -> Path:
    return work.parent / "home"


def command(work: Path, name: str, text: str, *, home: bool = True) -> None:
    base = work.parent / "home" if home else work
    path = base / ".agent" / "commands" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
