"""The wheel, installed in a fresh environment and run from an empty directory, is the whole product."""

from __future__ import annotations

import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent_cli import __version__
from tests.support.fork_server import ROOT
from tests.support.program import clean_env

release_check = runpy.run_path(str(ROOT / "tools" / "release_check.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(out.glob("*.whl"))


def test_what_is_in_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "agent_cli/_prompts/system.md" in names
    scripts = ("shell/carry.bash", "process/reaper.bash", "sandbox/keep.bash")
    assert {"agent_tools/tools.json", *(f"agent_tools/{script}" for script in scripts)} <= set(names)
    page = {f"agent_cli/extras/server/page/{path.name}" for path in (ROOT / "agent_cli/extras/server/page").iterdir()}
    assert (
        page <= set(names)
        and {"agent_cli/extras/server/page/index.html", "agent_cli/extras/server/page/app.css"} <= page
    )
    # Type checkers believe the annotations of a package only with this file.
    assert {"agent_cli/py.typed", "agent_tools/py.typed"} <= set(names)
    tops = {n.split("/")[0] for n in names}
    installed = f"agent_at_hand-{__version__}"
    assert tops == {"agent_cli", "agent_tools", f"{installed}.dist-info", f"{installed}.data"}
    assert {n for n in names if n.startswith(f"{installed}.data")} == {f"{installed}.data/data/share/man/man1/agent.1"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sdist_has_all_that_is_needed_and_gives_the_same_wheel(tmp_path: Path) -> None:
    """What `make release-check` does before it needs an index."""
    sdist, built = release_check["built"](tmp_path)
    assert sdist.name == f"agent_at_hand-{__version__}.tar.gz" and built.name.startswith(
        f"agent_at_hand-{__version__}-py3"
    )


def test_a_release_without_a_section_in_the_changelog_is_refused() -> None:
    release_check["check_changelog"]((ROOT / "CHANGELOG.md").read_text("utf-8"))
    with pytest.raises(release_check["ReleaseError"], match="has no section"):
        release_check["check_changelog"]("# Changelog\n\n## [0.0.1] - 2025-01-01\n")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_runs_the_demo_from_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    """The dependencies come from the environment the tests run in, so that no index is needed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    where = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", where, str(wheel)], check=True
    )
    outside = [p for p in sys.path if p.endswith("site-packages")]
    (Path(where) / "dependencies.pth").write_text("\n".join(outside))
    empty = tmp_path / "empty"
    empty.mkdir()
    env = clean_env(tmp_path / "home")
    del env["PYTHONPATH"]
    probe = [str(python), "-c", "import agent_cli; print(agent_cli.__file__)"]
    found = subprocess.run(probe, cwd=empty, env=env, check=True, capture_output=True, text=True)
    assert found.stdout.startswith(where)
    done = subprocess.run(
        [str(python), "-m", "agent_cli", "demo"],
        cwd=empty,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(empty.iterdir())
