"""Output styles through the real program: built-in ones, those of files and of plugins, and names that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.extension_files import home_of, put
from tests.support.model_server import ModelServer, Reply, openai
from tests.support.plugin_folders import plugin_folder
from tests.support.program import agent


def prompt_with(work: Path, style: str, *flags: str) -> tuple[str, str]:
    """The system prompt of a run with a style, and what it printed to standard error."""
    with ModelServer([Reply(text="Ok.")]) as server:
        given = ["--settings", json.dumps({"output_style": style})]
        done = agent(["-p", *given, *flags, "--model", "openai/gpt-test", "hi"], work, openai(server))
        assert done.returncode == 0, done.stderr
        return str(server.bodies[0]["messages"][0]["content"]), done.stderr


def test_styles_are_part_of_the_system_prompt(work: Path) -> None:
    plain, _ = prompt_with(work, "default")
    assert "Output style" not in plain
    found, _ = prompt_with(work, "Explanatory")
    assert "# Output style: explanatory" in found and found.startswith(plain[:2000])
    assert "TODO(human)" in prompt_with(work, "learning")[0]
    put(home_of(work), ".claude/output-styles/short.md", "---\nname: Terse\n---\nFive words.")
    assert "# Output style: Terse\n\nFive words." in prompt_with(work, "terse")[0]
    folder = plugin_folder(work.parent)
    assert "Answer in five words." in prompt_with(work, "tidy:terse", "--plugin-dir", str(folder))[0]


def test_a_style_of_a_project_counts_once_it_is_trusted_and_an_unknown_one_is_named(work: Path) -> None:
    put(work, ".agent/output-styles/ours.md", "Our way.")
    held, found = prompt_with(work, "ours")
    assert "Our way." not in held
    assert "there is no output style ours, so the default is used. Available: default, explanatory, learning" in found
    assert "Our way." in prompt_with(work, "ours", "--trust")[0]
