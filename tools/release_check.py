"""`make release-check`: what stands between this tree and a published package.

Builds the sdist, builds the wheel from nothing but the sdist, compares it with the wheel of the tree, has twine check
both, installs the wheel into an empty environment, runs it there, and writes what it brings along as an SBOM
(CycloneDX). The results are in dist/.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from agent_cli.kernel.version import __version__

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# What a packager needs beside the program: to test it, to read about it.
NEEDED = ("LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "tests/conftest.py",
          "docs/tutorial.md", "agent_cli/models/models.json", "prompts/system.md",
          "tools/refresh_models.py")  # fmt: skip


class ReleaseError(Exception):
    """What is wrong with the release, in a sentence."""


def run(*argv: str | Path, cwd: Path = ROOT) -> str:
    """Return the output of a command. Raises ReleaseError with its words if it fails."""
    done = subprocess.run([str(a) for a in argv], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, argv))} failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def build(source: Path, target: str, out: Path) -> Path:
    """Build an sdist or a wheel from `source` and return it."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out, cwd=source)
    [made] = out.glob("*.tar.gz" if target == "sdist" else "*.whl")
    return made


def check_changelog(text: str) -> None:
    """Raises ReleaseError where the changelog has no section of this version."""
    if f"\n## [{__version__}]" not in text:
        raise ReleaseError(f"CHANGELOG.md has no section for {__version__} (agent_cli/kernel/version.py)")


def contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel with their checksums, without the list of them."""
    with zipfile.ZipFile(wheel) as archive:
        return {i.filename: i.CRC for i in archive.infolist() if not i.filename.endswith("/RECORD")}


def built(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it. Raises ReleaseError where either lacks something."""
    sdist = build(ROOT, "sdist", folder / "sdist")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        if hasattr(tarfile, "data_filter"):  # missing in the first releases of Python 3.11
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder / "unpacked")
    if missing := [name for name in NEEDED if name not in names]:
        raise ReleaseError(f"the sdist lacks {', '.join(missing)}")
    [source] = (folder / "unpacked").iterdir()
    wheel, ours = build(source, "wheel", folder / "wheel"), build(ROOT, "wheel", folder / "ours")
    if differing := {name for name, _ in contents(wheel).items() ^ contents(ours).items()}:
        raise ReleaseError(f"the wheel from the sdist differs from that of the tree: {', '.join(sorted(differing))}")
    return sdist, wheel


def installed(wheel: Path, folder: Path) -> Path:
    """Install the wheel alone, run it, and return the Python of its environment."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    # Any dependency that has no wheel for this machine would need a compiler on a user's.
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", wheel)
    run(python, "-m", "pip", "check")
    said = run(folder / "bin" / "agent", "--version", cwd=folder).strip()
    if said != f"agent {__version__}":
        raise ReleaseError(f"the installed program calls itself {said!r}, not 'agent {__version__}'")
    run(python, "-m", "pip", "uninstall", "-q", "-y", "pip", "setuptools")
    return python


def main() -> int:
    """Do all of it; the first thing that is wrong ends it with code 1."""
    parser = argparse.ArgumentParser(prog="release_check.py", description="What stands between this and a release.")
    parser.add_argument("tools", type=Path, help="the bin folder that has twine and cyclonedx-py")
    tools = parser.parse_args().tools.resolve()
    try:
        with tempfile.TemporaryDirectory(prefix="agent-release-") as name:
            folder = Path(name)
            check_changelog((ROOT / "CHANGELOG.md").read_text("utf-8"))
            sdist, wheel = built(folder)
            print(f"builds: {sdist.name}, and {wheel.name} from it", flush=True)
            run(tools / "twine", "check", "--strict", sdist, wheel)
            print("twine check: passed", flush=True)
            python = installed(wheel, folder / "env")
            print("installs without a compiler, and runs", flush=True)
            DIST.mkdir(exist_ok=True)
            bill = DIST / f"agent_at_hand-{__version__}.cdx.json"
            run(tools / "cyclonedx-py", "environment", python, "--pyproject", ROOT / "pyproject.toml",
                "--output-reproducible", "--output-format", "JSON", "--output-file", bill)  # fmt: skip
            for made in (sdist, wheel):
                shutil.copy(made, DIST)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"SBOM: {bill.relative_to(ROOT)}; all is in dist/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
