"""`make demo` and its setup: each step is named, uv does the work if it can, and pip otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.fork_server import ROOT

# A Python whose `-m venv` makes an environment with a Python that logs what pip is asked for, and gets uv by it.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; printf '#!/bin/sh\\necho "demo $*"\\n' > "$3/bin/agent"
    chmod +x "$3/bin/agent" ;;
  *" uv") test -z "$NO_UV" || exit 1; cp "$UV" "$(dirname "$0")/uv" ;;
esac
echo "python $*"
"""
UV = """#!/bin/sh
echo "uv $*"
test -z "$BROKEN_UV"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    if shutil.which("make") is None:
        pytest.skip("NOT TESTED: no make here")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for folder, name, text in (("bin", "python", PYTHON), ("uv", "uv", UV)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
        (tmp_path / folder / name).chmod(0o755)
    return tmp_path


def demo(place: Path, *, uv: bool, **env: str) -> list[str]:
    folders = [place / "uv"] if uv else []
    path = os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"])
    done = subprocess.run(
        ["make", "demo", f"PYTHON={place}/bin/python", "VENV=.venv"], cwd=place, capture_output=True, text=True,
        env={"PATH": path, "UV": f"{place}/uv/uv", **env}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_uv_is_used_if_it_is_there(place: Path) -> None:
    assert demo(place, uv=True) == [
        "Setting up .venv (once, less than a minute)",
        f"1. Create .venv with {place}/bin/python",
        "python -m venv .venv",
        f"2. Use {place}/uv/uv",
        "3. Install agent and the libraries that it uses",
        "uv pip install --python .venv/bin/python -e .",
        "demo demo",
    ]
    assert demo(place, uv=True) == ["demo demo"]


def test_uv_is_fetched_for_the_environment_alone(place: Path) -> None:
    lines = demo(place, uv=False)
    assert lines[3] == "2. Get uv, a fast installer, into .venv"
    assert lines[-2:] == ["uv pip install --python .venv/bin/python -e .", "demo demo"]


@pytest.mark.parametrize("problem", ["NO_UV", "BROKEN_UV"])
def test_pip_does_it_if_uv_cannot(place: Path, problem: str) -> None:
    lines = demo(place, uv=False, **{problem: "1"})
    assert lines[-2:] == ["python -m pip install --disable-pip-version-check -e .", "demo demo"]
