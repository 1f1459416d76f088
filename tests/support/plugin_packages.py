"""Packages with tools, as pip leaves them."""

from __future__ import annotations

from pathlib import Path

from tests.support.fork_server import ROOT

POINTS = "[agent_cli.tools]\n"


def install(folder: Path, name: str, points: str, **modules: str) -> dict[str, str]:
    """A package as pip leaves it: modules and metadata in a folder of the path; the environment that has it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS + points)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}:{folder}"}
