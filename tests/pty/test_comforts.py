"""What makes the input line good to live in: shell commands, mentions, images, asides, search, vi, choices."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import zlib
from pathlib import Path

from tests.support.extension_files import command
from tests.support.model_server import ModelServer, Reply
from tests.support.pty_screen import GRAVE_REST, Drawn
from tests.support.repositories import git
from tests.support.scripts import call, script

SLOW = {"text": "one two three four five six seven eight nine ten " * 20, "pause": 0.03}


def png(path: Path) -> Path:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0\0\0")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def logged(work: Path) -> str:
    """The log of the one session."""
    (log,) = (p for p in (work.parent / "home").rglob("*.jsonl") if p.name != "input.history")
    return log.read_text()


def test_a_shell_command_runs_at_once_and_the_model_hears_of_it(work: Path) -> None:
    replies = [{"text": "I see it."}]
    (work / "sub").mkdir()
    with Drawn(["--model", script(work / "s.toml", replies)], work) as screen:
        screen.ready()
        screen.line("!!echo secret-word")
        screen.wait("● ! ")
        screen.line("!echo seen; cd sub")
        screen.wait("● ! echo seen; cd sub")
        screen.line("!!pwd")
        screen.wait("/sub\n")
        screen.line("well?")
        screen.wait("I see it.")
        screen.leave()
    log = logged(work)
    assert "secret-word" not in log and "$ echo seen" in log
    assert log.index('"text":"<user_command>') < log.index('"text":"well?"')


def test_a_shell_command_is_interrupted(work: Path) -> None:
    with Drawn(["--model", script(work / "s.toml", [])], work) as screen:
        screen.ready()
        screen.line("!sleep 60")
        screen.wait("! sleep 60")
        screen.wait("interrupt")
        screen.type("\x03")
        screen.gone("esc to interrupt")
        screen.wait("interrupted")
        screen.leave()


def test_a_mention_brings_the_lines_of_a_file(work: Path) -> None:
    (work / "n.txt").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    replies = [{"text": "Three.", "expect": '<file path="n.txt" lines="10-12">\nline 10\nline 11\nline 12\n</file>'}]
    with Drawn(["--model", script(work / "s.toml", replies)], work) as screen:
        screen.ready()
        screen.line("look at @n.txt:10-12, please")
        screen.wait("Three.")
        # The bytes of a frame may arrive in two parts.
        screen.wait("\n> look at @n.txt:10-12, please\n")
        screen.leave()


def test_a_dropped_image_is_a_word_in_the_line_and_is_sent(work: Path) -> None:
    image = png(work.parent / "a shot.png")
    replies = [{"text": "A dot.", "expect": "[Image #1 a shot.png]"}]
    (work / ".agentrc").write_text("")
    home = work.parent / "home" / ".config" / "agent"
    home.mkdir(parents=True, exist_ok=True)
    model = script(work / "s.toml", replies)
    (work / "settings.toml").write_text('model_takes = ["image"]\n')
    with Drawn(["--model", model, "--settings", "settings.toml"], work) as screen:
        screen.ready()
        quoted = str(image).replace(" ", "\\ ")
        screen.type(f"\x1b[200~{quoted}\x1b[201~")
        screen.wait("[Image #1 a shot.png]")
        screen.line(" what is this?")
        screen.wait("A dot.")
        screen.leave()
    log = logged(work)
    assert "iVBORw0KGgo" in log


def test_a_mentioned_image_is_sent_also_by_a_message_that_was_queued(work: Path) -> None:
    png(work / "dot.png")
    (work / "sub").mkdir()
    wait = call("Bash", command="cd sub; until [ -e ../go ]; do sleep 0.02; done")
    replies = [{"calls": [wait]}, {"text": "Done."}, {"text": "A dot.", "expect": "what is @dot.png?"}]
    model = script(work / "s.toml", replies)
    (work / "settings.toml").write_text('model_takes = ["image"]\n')
    args = ["--model", model, "--settings", "settings.toml", "--allowedTools", "Bash", "wait for it"]
    with Drawn(args, work) as screen:
        screen.wait("esc to interrupt")
        screen.line("what is @dot.png?")
        screen.wait("queued: what is @dot.png?")
        (work / "go").touch()
        screen.wait("A dot.")
        screen.leave()
    assert "iVBORw0KGgo" in logged(work)


def test_a_message_that_is_refused_is_in_the_line_again(work: Path) -> None:
    (work / "no.png").write_text("text")
    command(work, "make", "Made: !`touch made`")
    (work / "settings.toml").write_text('model_takes = ["image"]\n')
    pasted = "\n".join(f"row {n}" for n in range(9))
    model = script(work / "s.toml", [])
    args = ["--model", model, "--settings", "settings.toml", "--disallowedTools", "Bash(touch:*)"]
    with Drawn(args, work, columns=200) as screen:
        screen.ready()
        screen.type(f"look at @no.png \x1b[200~{pasted}\x1b[201~")
        screen.wait("9 lines]")
        screen.type("\r")
        screen.wait("no.png is not an image")
        screen.until(lambda: screen.input_line() == "> look at @no.png [Pasted #1 9 lines]", "the message in the line")
        screen.clear()
        screen.line("/make it")
        screen.wait("/make was not sent")
        screen.until(lambda: screen.input_line() == "> /make it", "the command in the line")
        screen.clear()
        screen.leave()


def test_a_question_beside_the_conversation_is_answered_and_not_kept(work: Path) -> None:
    slow = {"text": "one two three four five six seven eight nine THE-END", "pause": 0.2}
    replies = [{"text": "A."}, {"text": "It is **blue**."}, slow]
    with Drawn(["--model", script(work / "s.toml", replies)], work) as screen:
        screen.ready()
        screen.line("a")
        screen.wait("A.")
        screen.line("/btw what colour is it?")
        screen.wait("It is blue.")
        screen.gone("esc to interrupt")
        # The script answers by the length of the history, so a turn that runs and a question beside it get the same.
        screen.line("b")
        screen.wait("> b\n\n  It is blue.")
        screen.gone("esc to interrupt")
        screen.line("c")
        screen.wait("three")
        screen.line("/btw and now?")
        screen.until(lambda: screen.text().count("THE-END") == 2, "both answers")
        screen.leave()
    assert "what colour" not in logged(work) and "and now" not in logged(work)


def test_ctrl_o_shows_what_was_shortened_then_the_call_before(work: Path) -> None:
    (work / "n.txt").write_text("".join(f"line {n}\n" for n in range(1, 6)))
    long = call("Bash", command="seq 200")
    replies = [{"calls": [call("Read", file_path="n.txt")]}, {"calls": [long]}, {"text": "Done."}]
    model = script(work / "s.toml", replies)
    with Drawn(["--model", model, "--allowedTools", "Bash(seq:*)", "--", "go"], work) as screen:
        screen.wait("Done.")
        screen.gone("interrupt")
        screen.type("\x0f")
        screen.wait("command: seq 200")
        screen.type("\x1b[F")
        screen.wait("\n200")
        screen.type("\x0f")
        screen.wait("line 4")
        screen.type("\x1b[D")
        screen.wait("❯ ● Read n.txt")
        screen.type("q")
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        assert "line 4" not in screen.text()
        screen.leave()


def test_ctrl_r_finds_what_was_typed(work: Path) -> None:
    with Drawn(["--model", script(work / "s.toml", [{"text": "A."}, {"text": "B."}, {"text": "C."}])], work) as screen:
        screen.ready()
        screen.line("the first needle")
        screen.wait("A.")
        screen.line("something else")
        screen.wait("B.")
        screen.type("\x12need")
        screen.wait("history: need")
        screen.type("\r")
        screen.until(lambda: screen.input_line() == "> the first needle", "the message")
        screen.type("\r")
        screen.wait("C.")
        assert screen.text().count("> the first needle") == 2
        screen.leave()


def test_vi_keys_by_command_and_setting(work: Path) -> None:
    (work / "settings.toml").write_text("[terminal]\nvim = true\n")
    model = script(work / "s.toml", [{"text": "A."}, {**SLOW}])
    with Drawn(["--model", model, "--settings", "settings.toml"], work) as screen:
        screen.ready()
        screen.type("abc def\x1b")
        screen.wait(": abc def")
        screen.type("bcwX\r")
        screen.wait("\n> abc X\n")
        screen.wait("A.")
        screen.line("more")
        screen.wait("three")
        # The first Escape leaves insert mode, the next one interrupts.
        screen.type("\x1b")
        screen.until(lambda: screen.input_line() == ":", "the normal mode")
        screen.type("\x1b")
        screen.wait("interrupted")
        screen.type("i")
        screen.until(lambda: screen.input_line().startswith(">"), "typing")
        screen.line("/vim")
        screen.wait("vi mode off")
        screen.leave()


def test_themes_change_the_colours_that_are_written(work: Path) -> None:
    with Drawn(["--model", script(work / "s.toml", [{"text": "See `code`."}] * 2)], work) as screen:
        screen.ready()
        screen.line("a")
        screen.until(lambda: b"\x1b[38;5;75mcode" in screen.raw, "the code of the dark theme")
        screen.line("/theme light")
        screen.wait("theme: light")
        seen = len(screen.raw)
        screen.line("b")
        screen.until(lambda: b"\x1b[38;5;26mcode" in screen.raw[seen:], "the code of the light theme")
        screen.line("/theme none")
        screen.wait("theme: none")
        screen.leave()


def test_a_command_of_ones_own_writes_the_toolbar(work: Path) -> None:
    bar = work / "bar"
    bar.write_text(
        "#!/bin/sh\ncat > facts\n"
        "printf 'my \\033[31mred\\033[0m bar \\033]0;evil\\007 %s\\nsecond' \"$(wc -c < facts | tr -d ' ')\"\n"
    )
    bar.chmod(0o755)
    (work / "settings.toml").write_text(f'[terminal]\nstatus_line = "{bar}"\n')
    model = script(work / "s.toml", [{"text": "A."}])
    with Drawn(["--model", model, "--settings", "settings.toml"], work) as screen:
        screen.ready()
        screen.wait(r"my red bar \x1b]0;evil\x07")
        assert "second" not in screen.visible()
        facts = json.loads((work / "facts").read_text())
        assert facts["cwd"] == str(work) and facts["model"]["display_name"] == model
        assert facts["permission_mode"] == "default"
        screen.type("\x1b[Z")
        screen.until(lambda: json.loads((work / "facts").read_text() or "{}").get("permission_mode") == "acceptEdits")
        bar.write_text("#!/bin/sh\nexit 1\n")
        screen.type("\x1b[Z")
        screen.wait("plans, changes nothing")
        screen.leave()


def test_a_retry_counts_down_and_an_error_says_what_to_do(work: Path) -> None:
    server = ModelServer([Reply(status=429, headers=(("retry-after", "9"),))], repeat=True)
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.openai_url}
    with server, Drawn(["--model", "openai/m", "go"], work, **env) as screen:
        screen.until(
            lambda: re.search(r"trying again in 9 s, at [\d:]+ \(1\)", screen.visible()) is not None, "a retry"
        )
        screen.wait("trying again in 8 s")
        screen.wait("trying again in 7 s")
        screen.type("\x03")
        screen.wait("interrupted")
        screen.leave()


def test_an_image_is_taken_from_the_clipboard(work: Path) -> None:
    image = png(work.parent / "held.png")
    programs = work.parent / "programs"
    programs.mkdir()
    (programs / "xclip").write_text(f'#!/bin/sh\ntest "$4" = image/png && cat "{image}"\n')
    (programs / "xclip").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    with Drawn(["--model", script(work / "s.toml", [])], work, DISPLAY=":9", PATH=path) as screen:
        screen.ready()
        screen.type("\x16")
        screen.wait("[Image #1 clipboard-")
        screen.type("\x15")
        image.write_bytes(b"no image")
        screen.type("\x16")
        screen.wait("There is no image in the clipboard")
        screen.leave()


def test_a_setting_chooses_lines_and_words(work: Path) -> None:
    (work / "settings.toml").write_text("[terminal]\nplain = true\n")
    replies = [{"calls": [call("Read", file_path="a.txt")]}, {"text": "Some **words**."}]
    with Drawn(["--model", script(work / "s.toml", replies), "--settings", "settings.toml"], work) as screen:
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        screen.line("go")
        screen.wait("Some **words**.")
        screen.wait("tool: Read a.txt")
        screen.type("\x04")
        screen.end()
        assert b"\x1b" not in screen.raw


def test_the_toolbar_tells_the_branch_and_whether_it_has_changes(work: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=work, check=True)

    git("init", "-q", "-b", "topic")
    model = script(
        work.parent / "s.toml", [{"calls": [call("Write", file_path="new.txt", content="x")]}, {"text": "A."}]
    )
    git("add", "-A")
    git("commit", "-qm", "all")
    with Drawn(["--model", model, "--permission-mode", "acceptEdits"], work, columns=200) as screen:
        screen.ready()
        screen.until(lambda: screen.visible().rstrip().endswith("topic"), "the branch")
        screen.line("go")
        screen.wait("A.")
        screen.until(lambda: screen.visible().rstrip().endswith("topic*"), "the star")
        screen.leave()


def test_the_star_at_the_branch_goes_with_the_changes_that_a_line_commits(root: Path) -> None:
    git(root, "init", "-q", "-b", "main", ".")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    (root / "a.txt").write_text("changed\n")
    model = script(root.parent / "s.toml", [])
    with Drawn(["--model", model], root) as screen:
        screen.ready()
        screen.wait("main*")
        screen.line("!git -c user.name=n -c user.email=e@example.org commit -qam second")
        screen.until(lambda: "main" in screen.visible() and "main*" not in screen.visible(), "a clean branch")
        (root / "a.txt").write_text("again\n")
        screen.line("/status")
        screen.wait("main*")


def test_the_toolbar_tells_how_full_the_window_is_where_no_provider_does(work: Path) -> None:
    (work / "a.txt").write_text("a line of several words\n" * 1_500)
    replies = [{"text": "A."}, {"calls": [call("Read", file_path="a.txt")]}, {"text": "B."}]
    args = ["--model", script(work.parent / "s.toml", replies)]

    def full() -> int:
        found = re.findall(r"context [━╌]+ (\d+)%", screen.visible())
        return int(found[-1]) if found else 0

    with Drawn(args, work, columns=200, AGENT_CONTEXT_WINDOW="60000") as screen:
        screen.ready()
        screen.line("one")
        screen.wait("A.")
        screen.until(lambda: full() > 0, "how full it is")
        before = full()
        screen.line("two")
        screen.wait("B.")
        screen.until(lambda: full() > before + 10, "that it is fuller")
        screen.leave()
    with Drawn([*args, "-c"], work, columns=200, AGENT_CONTEXT_WINDOW="60000") as screen:
        screen.ready()
        screen.until(lambda: full() > before + 10, "the same, in a session that is gone on with")
        screen.leave()


def test_escape_twice_goes_back_to_before_a_message_with_it_in_the_line(work: Path) -> None:
    edit = call("Edit", file_path="a.txt", old_string="world", new_string="there")
    replies = [{"calls": [call("Read", file_path="a.txt")]}, {"calls": [edit]}, {"text": "A."}, {"text": "B."}]
    args = ["--model", script(work.parent / "s.toml", replies), "--permission-mode", "acceptEdits"]
    with Drawn(args, work) as screen:
        screen.ready()
        screen.line("change it, see @a.txt")
        screen.wait("A.")
        screen.gone("esc to interrupt")
        assert (work / "a.txt").read_text() == "hello there\n"
        screen.type("\x1b")
        screen.rest(0.2)
        screen.type("\x1b")
        screen.wait("Go back to before which message?")
        screen.wait("change it, see @a.txt")
        screen.type("\r")
        screen.wait("What should go back?")
        screen.wait("Esc cancel")
        screen.rest(GRAVE_REST)
        screen.type("1")
        screen.wait("Undo?")
        screen.rest(GRAVE_REST)
        screen.type("y")
        screen.wait("The conversation continues from before")
        screen.until(lambda: screen.input_line() == "> change it, see @a.txt", "the message in the line")
        assert (work / "a.txt").read_text() == "hello world\n"
        screen.clear()
        screen.leave()
