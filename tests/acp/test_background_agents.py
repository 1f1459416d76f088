"""Sub-agents in the background in an editor: the prompt ends when they have, and their questions name them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.support.background_model import Subagents, background, runs
from tests.support.editor_client import FakeEditor, connected
from tests.support.model_replies import Reply
from tests.support.stories.model import Model, says


def test_the_editor_is_asked_for_it_and_the_prompt_waits(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()

    async def story(model: Model) -> FakeEditor:
        env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.server.openai_url, "AGENT_MODEL": "openai/test-model"}
        async with connected(work, None, **env) as here:
            opened = await here.agent.new_session(cwd=str(work), mcp_servers=[])
            answer = await here.prompt(opened.session_id, "go")
            assert answer.stop_reason == "end_turn"
            return here.editor

    with Model() as model:
        Subagents(model, one=[runs("echo x >> log"), Reply(text="Ran it.")])
        model.will(says("", background("one")), says("It works."), says("All is done.", sees="Ran it."))
        editor = asyncio.run(story(model))
        model.finished()
    assert (work / "log").read_text() == "x\n"
    (asked,) = editor.asked
    assert "for general in the background: do one" in json.dumps(asked)
    assert editor.text().endswith("All is done.")
