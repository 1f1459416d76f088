"""Stories of menus and pickers in the real program: commands, settings, modes, models, jobs, earlier prompts, keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.pty_screen import Drawn
from tests.support.scripts import call, script

DOWN = "\x1b[B"
DONE = {"text": "Done."}


def state(work: Path, name: str) -> Path:
    (found,) = (work.parent / "home").rglob(name)
    return found


def used_first(listed: str) -> bool:
    return 0 <= listed.find("  openai/gpt-4o-mini  ") < listed.find("  openai/gpt-5.6  ")


def test_enter_runs_the_first_command_of_the_menu_and_what_is_used_moves_up(work: Path) -> None:
    model = script(work.parent / "s.toml", [])
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.line("/sta")
        screen.wait("> /status")
        screen.wait("  version    agent")
        screen.type("/")
        screen.wait("  /status")
        screen.until(lambda: screen.visible().index("/status") < screen.visible().rindex("/help "), "the order of use")
        screen.type("\x15/rena\r")
        screen.wait("Name of this session")
        screen.line("the slug bug")
        screen.wait("This session is called the slug bug.")
        screen.line("/mode pl")
        screen.wait("mode: plan")
        screen.type("/zzz\r")
        screen.wait("Unknown command /zzz. /help lists the commands.")
        screen.leave()
    assert "status" in json.loads(state(work, "picks.json").read_text())["command"]


@pytest.mark.parametrize("words", ["exit", "quit", "/quit", ":q"])
def test_words_that_leave_elsewhere_leave_here(work: Path, words: str) -> None:
    with Drawn(["--model", script(work.parent / "s.toml", [DONE])], work) as screen:
        screen.ready()
        screen.line(words)
        screen.end()
        assert screen.child.returncode == 0 and "Done." not in screen.text()


def test_commands_of_other_programs_do_what_they_do_there(work: Path) -> None:
    with Drawn(["--model", script(work.parent / "s.toml", [DONE, DONE])], work) as screen:
        screen.ready()
        screen.line("hello")
        screen.wait("Done.")
        for line, shown in (
            ("/usage", "tokens in"),
            ("/bashes", "There are no background jobs."),
            ("/new", "New session"),
        ):
            screen.line(line)
            screen.wait(shown)
            if line == "/usage":
                screen.type("q")
                screen.until(lambda: screen.input_line() == ">", "the prompt")
        screen.line("/plan make it small")
        screen.until(lambda: screen.text().count("Done.") == 2, "the turn in plan mode")
        screen.until(lambda: "plans, changes nothing" in screen.visible(), "plan mode")
        screen.leave()


def test_a_question_mark_lists_the_keys_until_the_next_key(work: Path) -> None:
    own = work.parent / "home/.agentrc"
    own.parent.mkdir()
    own.write_text('[terminal.keys]\nsearch = "ctrl-t"\n')
    with Drawn(["--model", script(work.parent / "s.toml", [])], work, columns=80, rows=24) as screen:
        screen.ready()
        screen.type("?")
        screen.wait("next approval mode")
        keys = screen.visible().replace("Ctrl-X Ctrl-R", "")
        assert "Ctrl-T" in keys and "Ctrl-R" not in keys
        assert screen.input_line() == ">"
        screen.type("a?")
        screen.until(lambda: screen.input_line() == "> a?", "typing")
        assert "next approval mode" not in screen.visible()
        screen.type("\x15\x14")
        screen.wait("There are no earlier messages in this project")
        screen.leave()


def test_keys_that_cannot_be_are_named_at_the_start(work: Path) -> None:
    args = ["--model", script(work.parent / "s.toml", []), "--settings", "keys.toml"]
    (work / "keys.toml").write_text('[terminal.keys]\nsearch = "ctl-t"\n')
    with Drawn(args, work) as screen:
        screen.end()
        assert screen.child.returncode == 2
        assert "terminal.keys.search: ctl-t is not a key; write it as ctrl-t" in screen.text()


def test_modes_and_models_are_picked_from_lists(work: Path) -> None:
    with Drawn(["--model", script(work.parent / "s.toml", [])], work, OPENAI_API_KEY="sk-x") as screen:
        screen.ready()
        screen.line("/mode")
        screen.wait("edits files without asking")
        screen.type(f"{DOWN}\r")
        screen.wait("mode: acceptEdits")
        screen.line("/model")
        screen.wait("Model")
        screen.wait("type to filter")
        screen.wait("per M")
        screen.type("gpt-4o-mini\r")
        screen.wait("model: openai/gpt-4o-mini")
        screen.line("/model")
        # What was used comes first.
        screen.until(lambda: used_first(screen.visible().partition("\nModel\n")[2]), "the used one")
        screen.type("\x1b")
        screen.gone("\nModel\n")
        screen.line("/effort")
        screen.wait("\nEffort")
        screen.type("high\r")
        screen.wait("effort: high")
        screen.leave()


def test_settings_are_changed_on_a_screen_and_written_with_their_comments(work: Path) -> None:
    own = work.parent / "home/.agentrc"
    own.parent.mkdir()
    own.write_text('# mine\neffort = "low"\nstream = true # quick\n')
    with Drawn(["--model", script(work.parent / "s.toml", [])], work, columns=80, rows=24) as screen:
        screen.ready()
        screen.line("/config")
        screen.wait("\nchanged\n❯ ● effort")
        screen.type("/max_rounds\r")
        screen.wait("❯   max_rounds")
        screen.type("\r")
        screen.wait("\nmax_rounds: model calls per turn")
        screen.until(lambda: screen.input_line() == "> 200", "its value")
        screen.type("\x15many\r")
        screen.wait("  max_rounds: expected a whole number")
        screen.type("\x1577\r")
        screen.wait("❯ ● max_rounds")
        screen.type("/terminal theme\r")
        screen.wait("❯   theme")
        screen.type("\r")
        screen.wait("\nterminal.theme: auto")
        screen.until(lambda: screen.input_line() == "> auto", "its value")
        screen.type("\x15light\r")
        screen.wait("❯ ● terminal.theme")
        screen.type("/reasoning effort\r")
        screen.wait("❯ ● effort")
        screen.type("\r")
        screen.wait("\neffort: reasoning effort")
        screen.type("(default)\r")
        screen.wait("❯   effort")
        screen.type("/reasoning effort\r")
        screen.wait("not set")
        screen.rest()
        screen.type("q")
        screen.until(lambda: screen.input_line() == ">", "the prompt")
        # What was changed is left, and nothing of the settings themselves.
        for line in ("max_rounds = 77, saved in", 'terminal.theme = "light", saved in', "effort is removed from"):
            screen.wait(f"{line} ~/.agentrc")
        assert "model calls per turn" not in screen.text()
        screen.leave()
    assert own.read_text() == '# mine\nstream = true # quick\nmax_rounds = 77\n\n[terminal]\ntheme = "light"\n'


def test_keys_are_checked_before_they_are_saved_and_shown_as_they_are_written(work: Path) -> None:
    own = work.parent / "home/.agentrc"
    own.parent.mkdir()
    own.write_text('[terminal]\nkeys = { search = "ctrl-t" }\n')
    with Drawn(["--model", script(work.parent / "s.toml", [])], work, columns=80, rows=24) as screen:
        screen.ready()
        screen.line("/config terminal.keys")
        screen.until(lambda: screen.input_line() == '> { search = "ctrl-t" }', "its value")
        for wrong, text in (("serach", "did you mean search?"), ("mode", "Ctrl-R is the key of both mode and search")):
            screen.type(f'\x15{{ {wrong} = "ctrl-r" }}\r')
            screen.wait(text)
        screen.type('\x15{ search = "ctrl-y" }\r')
        screen.wait('terminal.keys = { search = "ctrl-y" }, saved in ~/.agentrc')
        screen.line('/config terminal.keys { search = "escape" }')
        screen.wait("cannot be given to an action")
        screen.leave()
    assert 'search = "ctrl-y"' in own.read_text()


def test_rename_asks_for_a_name(work: Path) -> None:
    with Drawn(["--model", script(work.parent / "s.toml", [DONE]), "--", "go"], work, columns=80, rows=24) as screen:
        screen.wait("Done.")
        screen.line("/rename")
        screen.wait("Name of this session")
        screen.line("slugs")
        screen.wait("This session is called slugs.")
        screen.line("/rename titles of pages")
        screen.wait("This session is called titles of pages.")
        screen.leave()


def test_jobs_are_counted_watched_ended_and_their_end_is_shown(work: Path) -> None:
    def start(command: str) -> dict[str, object]:
        return {"calls": [call("Bash", command=command, run_in_background=True)]}

    long = "echo first; until [ -e go ]; do sleep 0.02; done; echo second; exec sleep 60"
    replies = [start(long), start("until [ -e end ]; do sleep 0.02; done; exit 3"), DONE]
    args = ["--model", script(work.parent / "s.toml", replies), "--allowedTools", "Bash", "--", "go"]
    with Drawn(args, work, columns=80, rows=24) as screen:
        screen.wait("Done.")
        screen.wait("· 2 jobs")
        (work / "end").touch()
        screen.wait("job b2 ended: exit code 3, ")
        screen.wait("· 1 job")
        screen.line("/jobs")
        screen.wait("❯ ● b1  running")
        screen.wait("\nfirst\n")
        screen.type("w")
        screen.wait("│ first")
        (work / "go").touch()
        screen.wait("│ second")
        screen.type("\x1b")
        screen.gone("│ second")
        screen.line("/jobs kill b1")
        screen.wait("b1 ended after")
        screen.gone("1 job")
        screen.leave()


def test_earlier_prompts_of_all_sessions_are_searched_newest_first(work: Path) -> None:
    model = script(work.parent / "s.toml", [DONE] * 3)
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        for text in ("fix the first bug", "fix the second bug", "something else"):
            screen.line(text)
            screen.until(lambda text=text: f"> {text}" in screen.text() and "interrupt" not in screen.visible())
        screen.leave()
    with Drawn(["--model", model], work) as screen:
        screen.ready()
        screen.type("a draft\x12")
        screen.wait("history: a draft")
        screen.wait("no match")
        screen.type("\x15bug")
        screen.until(
            lambda: screen.visible().find("the second bug") < screen.visible().find("the first bug"), "the order"
        )
        screen.type("\x12\r")
        screen.until(lambda: screen.input_line() == "> fix the first bug", "the older one")
        screen.type("\x12\x1b")
        screen.until(lambda: screen.input_line() == "> fix the first bug", "the draft")
        screen.type("\x15")
        screen.leave()


def test_a_paste_is_counted_right_and_deleted_as_a_whole(work: Path) -> None:
    with Drawn(["--model", script(work.parent / "s.toml", [])], work) as screen:
        screen.ready()
        text = "".join(f"line {n}\r" for n in range(200))
        screen.type(f"see \x1b[200~{text}\x1b[201~")
        screen.wait("[Pasted #1 200 lines]")
        screen.type("\x7f")
        screen.until(lambda: screen.input_line() == "> see", "its end")
        screen.type("\x15")
        screen.leave()


def test_in_vi_cw_leaves_the_space_behind_the_word(work: Path) -> None:
    (work / "settings.toml").write_text("[terminal]\nvim = true\n")
    with Drawn(["--model", script(work.parent / "s.toml", []), "--settings", "settings.toml"], work) as screen:
        screen.ready()
        screen.type("a hello world foo\x1b")
        screen.until(lambda: screen.input_line().startswith(":"), "the normal mode")
        screen.type("0wcwNEW\x1b")
        screen.until(lambda: screen.input_line() == ": a NEW world foo", "cw")
        screen.type("02cwX\x1b")
        screen.until(lambda: screen.input_line() == ": X world foo", "2cw")
        screen.type("$x0wcwb\x1b")
        screen.until(lambda: screen.input_line() == ": X b fo", "a word of one letter")
        screen.type("dd")
        screen.until(lambda: screen.input_line() == ":", "an empty line")
        screen.leave()


def test_files_that_programs_write_for_themselves_are_not_mentioned(work: Path) -> None:
    (work / "__pycache__").mkdir()
    (work / "__pycache__/slug.cpython-311.pyc").touch()
    (work / "slug.py").touch()
    (work / "slug.log").touch()
    (work / ".gitignore").write_text("*.log\n")
    with Drawn(["--model", script(work.parent / "s.toml", [])], work) as screen:
        screen.ready()
        screen.type("see @sl")
        screen.wait("@slug.py")
        assert "pyc" not in screen.visible() and "slug.log" not in screen.visible()
        screen.type("\x15")
        screen.leave()


@pytest.mark.parametrize("columns", [80, 100])
def test_sessions_are_one_row_each(work: Path, columns: int) -> None:
    with Drawn(["--model", script(work.parent / "s.toml", [DONE])], work, columns=columns) as screen:
        screen.ready()
        screen.line("a title that is long enough to fill the row of the list, and more of it " * 2)
        screen.wait("Done.")
        screen.line("/sessions")
        screen.wait("/resume opens one.")
        (row,) = [line for line in screen.text().splitlines() if line.startswith("  * ")]
        assert "a title" in row and len(row) < columns
        below = screen.text().partition(row)[2].split("\n")[1]
        assert below == "  /resume opens one."
        screen.leave()


def test_addresses_and_files_are_links_where_the_terminal_follows_them(work: Path) -> None:
    model = script(work.parent / "s.toml", [{"text": "Both `a.txt` and https://a.example/x are there."}])
    for known, env in ((True, {"WT_SESSION": "1"}), (False, {})):
        with Drawn(["--model", model, "--", "go"], work, **env) as screen:
            screen.wait("are there.")
            # Rows are linked once they are finished.
            screen.wait("\n✓ ")
            assert (b"\x1b]8;;https://a.example/x\x1b\\https://a.example/x\x1b]8;;\x1b\\" in screen.raw) == known
            assert (f"{work}/a.txt\x1b\\a.txt\x1b]8;;\x1b\\".encode() in screen.raw) == known
            screen.leave()
