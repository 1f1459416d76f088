"""The user's commands and images in a session on a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.support.extension_files import command
from tests.support.pty_session import Terminal
from tests.support.sample_files import picture
from tests.support.scripts import script


def test_the_persons_commands_are_listed_expanded_and_never_before_ours(work: Path) -> None:
    command(work, "ask", "---\ndescription: Ask about it\nargument-hint: [topic]\n---\nWhat of $ARGUMENTS?")
    command(work, "cost", "Never sent")
    command(work, "empty", "")
    model = script(work.parent / "s.toml", [{"text": "So it is.", "expect": "What of maps and land?"}])
    terminal = Terminal(["--model", model], work)
    terminal.ready()
    terminal.type("/help prompts")
    assert "/ask [topic]" in terminal.expect("Ask about it")
    terminal.type("/asc")
    terminal.expect("Unknown command /asc. Did you mean /ask?")
    terminal.type("/cost")
    terminal.expect("tokens in")
    terminal.type("/empty")
    terminal.expect("The command /empty is empty")
    terminal.type("/ask maps and land")
    terminal.expect("So it is.")
    terminal.leave()


def test_an_image_goes_with_the_first_message(work: Path) -> None:
    (work / "shot.png").write_bytes(picture())
    model = script(work.parent / "s.toml", [{"text": "A dot."}, {"text": "Still a dot."}])
    refused = Terminal(["-i", "shot.png", "--model", model], work)
    refused.expect("known")
    refused.end()
    assert refused.exit_code == 2
    terminal = Terminal(["-i", "shot.png", "--model", model], work, AGENT_MODEL_TAKES="image")
    for words, answer in (("What is it?", "A dot."), ("And now?", "Still a dot.")):
        terminal.ready()
        terminal.type(words)
        terminal.expect(answer)
    terminal.leave()
    [log] = (work.parent / "home").rglob("*.jsonl")
    shown = [line for line in log.read_text().splitlines() if '"media":[{' in line]
    assert len(shown) == 1 and "What is it?" in shown[0]
