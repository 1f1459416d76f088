"""The name of the package and of its commands, as the documents and the program give them."""

from __future__ import annotations

import re
import tomllib

from agent_cli.cli.hints import FOREIGN_COMMANDS
from agent_cli.kernel.version import PACKAGE
from tests.support.fork_server import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Where a document names the package: what a package manager is given, a dependency, an extra.
_NAMED = re.compile(
    r"(?:pipx (?:upgrade|uninstall|install)|uv tool (?:upgrade|uninstall|install)|pip (?:uninstall|show)) ([\w-]+)"
    r"|dependencies = \[\"([\w-]+)\"\]|`([\w-]+)\[(?:all|batch|images|keyring|vertex)\]"
)


def test_the_program_knows_the_name_of_its_package() -> None:
    assert PROJECT["name"] == PACKAGE
    assert PROJECT["scripts"].keys() == {"agent", PACKAGE}
    assert len(set(PROJECT["scripts"].values())) == 1
    for extra in ("all", "dev"):
        own = [each for each in PROJECT["optional-dependencies"][extra] if "[" in each and each.startswith("agent")]
        assert [each.partition("[")[0] for each in own] == [PACKAGE]


def test_documents_name_the_package_as_it_is() -> None:
    wrong = {
        (path.name, name)
        for path in PAGES
        for match in _NAMED.finditer(path.read_text("utf-8"))
        if (name := next(filter(None, match.groups()))) not in (PACKAGE, "git")
    }
    assert not wrong


def test_the_readme_says_how_to_install_upgrade_remove_and_get_round_another_agent() -> None:
    text = (ROOT / "README.md").read_text("utf-8").partition("## Install")[2].partition("\n## ")[0]
    for command in ("pipx install git+https://", f"pipx upgrade {PACKAGE}", f"uv tool uninstall {PACKAGE}"):
        assert command in text
    assert f"run `{PACKAGE}`" in " ".join(text.split())


def test_the_hint_of_agent_update_names_the_package() -> None:
    assert f"pipx upgrade {PACKAGE}" in FOREIGN_COMMANDS["update"]
