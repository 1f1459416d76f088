"""Bash: real commands, their ends of every kind, and what may not happen whatever they do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent_tools.base import Progress, ToolResult
from agent_tools.results import CommandOutput
from tests.support.tool_bench import TOOLS, Bench
from tests.support.waiting import gone, soon


def test_a_command_tells_its_output_and_exit_code(bench: Bench) -> None:
    result = bench("Bash", command="echo out; echo err >&2; pwd")
    assert result.text.startswith(f"out\nerr\n{bench.root}\n[exit code 0, ")
    assert isinstance(result.display, CommandOutput) and result.display.exit_code == 0 and not result.is_error
    assert "".join(bench.progress) == result.display.output + "\n"
    failed = bench("Bash", command="echo no; exit 3")
    assert failed.is_error and failed.text.startswith("no\n[exit code 3, ")
    assert bench("Bash", command="true").text.startswith("(no output)\n[exit code 0")
    assert "SIGSEGV (signal 11)" in bench("Bash", command="kill -SEGV $$").text
    assert "exit code 137 (128 + 9: SIGKILL)" in bench("Bash", command="bash -c 'kill -9 $$'; exit").text
    assert "empty" in bench.fails("Bash", command="  ")
    assert "NUL" in bench.fails("Bash", command="a\0b")
    assert "too long" in bench.fails("Bash", command=": " + "x" * 3_000_000)


def test_it_is_bash_without_startup_files_input_or_a_terminal(bench: Bench, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_text("echo STARTUP\n")
    bench.ctx.env |= {
        "BASH_ENV": str(evil),
        "ENV": str(evil),
        "BASH_FUNC_ls%%": "() { echo FAKE; }",
        "HOME": str(tmp_path),
    }
    (tmp_path / ".bashrc").write_text("echo RC\n")
    text = bench(
        "Bash", command='[[ a == a ]] && echo bash; ls /dev/null; cat; read x || echo eof; tty; echo "$PAGER"'
    ).text
    assert text.startswith("bash\n/dev/null\neof\nnot a tty\ncat\n")
    # Notices of newer versions are not about the work.
    assert bench("Bash", command="env | grep -ci 'update_notifier\\|version_check'").text.startswith("3\n")
    assert "No such device" in bench("Bash", command="echo x > /dev/tty").text


def test_editors_and_password_prompts_fail_at_once(bench: Bench) -> None:
    command = "git init -q . && git config user.email a@b && git config user.name n && git commit --allow-empty"
    result = bench("Bash", command=command, timeout=20_000)
    assert result.is_error and "There is no editor here" in result.text


def test_keys_are_withheld_and_a_failure_says_which(bench: Bench) -> None:
    keys = ("OPENAI_API_KEY", "GH_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_PASS", "apikey", "NPM_AUTH")
    plain = ("MONKEY", "TOKENIZERS_PARALLELISM", "KEYBOARD", "SSH_AUTH_SOCK", "PWD", "COMPASS")
    bench.ctx.env |= dict.fromkeys((*keys, *plain, "KEPT_TOKEN"), "hush")
    bench.ctx.settings["env_pass"] = ["KEPT_TOKEN"]
    text = bench("Bash", command="env").text
    assert [k for k in keys if f"{k}=" in text] == [] and [
        p for p in (*plain, "KEPT_TOKEN") if f"{p}=" not in text
    ] == []
    assert "[withheld" not in text
    for harmless in ("false", "grep -r nothing .", "ls gone"):
        assert "[withheld" not in bench("Bash", command=harmless).text
    message = "[withheld from commands because they look like secrets: "
    failed = bench("Bash", command="echo 'error: no API key found'; false").text
    assert f"{message}AWS_SECRET_ACCESS_KEY, DB_PASSWORD" in failed
    assert message not in bench("Bash", command="echo 'error: no API key found'; exit 2").text, "once is enough"
    assert f"{message}GH_TOKEN;" in bench("Bash", command='false "$GH_TOKEN"').text
    assert f"{message}NPM_AUTH;" in bench("Bash", command="echo NPM_AUTH is not set; false").text


@pytest.fixture
def killed_at_timeout(bench: Bench) -> None:
    bench.ctx.workspace.offered = "BashOutput".__ne__


@pytest.mark.usefixtures("killed_at_timeout")
def test_a_timeout_ends_a_child_that_ignores_the_polite_signal(bench: Bench) -> None:
    command = "trap '' TERM; (trap '' TERM; echo $BASHPID > child; exec sleep 60) & echo begun; sleep 60"
    began = time.monotonic()
    result = bench("Bash", command=command, timeout=500)
    assert time.monotonic() - began < 5
    assert result.is_error and result.text.startswith("begun\n[timed out after 0.5 s")
    assert isinstance(result.display, CommandOutput) and result.display.exit_code is None
    assert soon(lambda: gone(int((bench.root / "child").read_text())))


@pytest.mark.usefixtures("killed_at_timeout")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="NOT TESTED: there is no /proc here")
def test_a_timeout_ends_a_daemon_that_left_the_group(bench: Bench) -> None:
    daemon = "setsid bash -c 'trap \"\" TERM; echo $$ > daemon; exec sleep 60' >/dev/null 2>&1 &"
    command = f"{daemon} while ! [ -s daemon ]; do :; done; sleep 60"
    bench("Bash", command=command, timeout=2_000)
    assert soon(lambda: gone(int((bench.root / "daemon").read_text())))


def test_a_grandchild_that_holds_the_pipe_does_not_hold_us(bench: Bench) -> None:
    began = time.monotonic()
    result = bench("Bash", command="sleep 30 & echo $! > child; echo done")
    assert time.monotonic() - began < 5
    assert result.text.startswith("done\n[exit code 0") and "(sleep 30) is now b1 in the background" in result.text
    os.kill(int((bench.root / "child").read_text()), 9)
    assert "background" not in bench("Bash", command="sleep 0 & wait").text


def test_a_grandchild_that_floods_the_pipe_does_not_hold_us(bench: Bench) -> None:
    began = time.monotonic()
    bench("Bash", command="yes & echo $! > child")
    assert time.monotonic() - began < 5
    bench("KillShell", shell_id="b1")
    assert soon(lambda: gone(int((bench.root / "child").read_text())))


def test_an_interruption_from_another_thread_ends_it_at_once(bench: Bench) -> None:
    args = bench.args("Bash", {"command": "echo begun; echo $$ > shell; sleep 60; echo never"})
    running = TOOLS["Bash"].run(args, bench.ctx)
    assert not isinstance(running, ToolResult)
    assert next(running) == Progress("begun\n")
    threading.Timer(0.1, bench.ctx.cancel.cancel).start()
    began = time.monotonic()
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert time.monotonic() - began < 30
    result = stop.value.value
    assert result.is_error and result.text.startswith("begun\n[interrupted by the user after")
    assert soon(lambda: gone(int((bench.root / "shell").read_text())))


def test_closing_the_generator_ends_the_command(bench: Bench) -> None:
    args = bench.args("Bash", {"command": "echo begun; echo $$ > shell; sleep 60"})
    running = TOOLS["Bash"].run(args, bench.ctx)
    assert not isinstance(running, ToolResult)
    next(running)
    assert soon(lambda: (bench.root / "shell").exists() and bool((bench.root / "shell").read_text()))
    running.close()
    assert gone(int((bench.root / "shell").read_text()))


def test_no_descriptor_is_left_open(bench: Bench) -> None:
    def count() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    bench("Bash", command="true")
    gc.collect()  # what other tests of this process have left
    before = count()
    for number in range(1, 6):
        bench("Bash", command="echo x; exit 1")
        offered, bench.ctx.workspace.offered = bench.ctx.workspace.offered, "BashOutput".__ne__
        bench("Bash", command="sleep 5", timeout=1)
        bench.ctx.workspace.offered = offered
        bench("Bash", command="sleep 5", timeout=1)
        bench("KillShell", shell_id=f"b{number}")
        bench("Read", file_path="/etc/passwd")
    assert count() <= before


@pytest.mark.slow
def test_a_flood_in_one_line_does_not_grow_the_process(bench: Bench) -> None:
    code = (
        "import sys, os, resource, pathlib\n"
        "from tests.support.tool_bench import TOOLS, Bench\n"
        "bench = Bench(pathlib.Path(sys.argv[1]))\n"
        "bench('Bash', command='echo x')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "r = bench('Bash', command='echo BEGIN; head -c 200000000 /dev/zero | tr \"\\\\0\" y; echo END')\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "print(grown, len(r.text), 'BEGIN' in r.text, 'END' in r.text, 'bytes cut here' in r.text)\n"
        "print(sum(map(len, bench.progress)) < 5_000_000)\n"
    )
    here = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{here.parents[1]}:{here.parents[1] / 'tools'}"}
    argv = [sys.executable, "-c", code, str(bench.root)]
    out = subprocess.run(argv, capture_output=True, text=True, check=True, env=env).stdout.split()
    grown = int(out[0]) / (1024 if sys.platform == "darwin" else 1)
    assert grown < 20_000, f"grew by {grown} KB"
    assert int(out[1]) < 35_000 and out[2:] == ["True", "True", "True", "True"]


def test_the_middle_of_long_output_is_cut_at_lines_with_a_note(bench: Bench) -> None:
    text = bench("Bash", command="seq 1 100000").text
    assert text.startswith("1\n2\n3\n") and "\n99999\n100000\n[exit code 0" in text and len(text) < 32_000
    note = next(line for line in text.splitlines() if "cut here" in line)
    assert "of 588,895 bytes cut here; all of it is in /" in note
    cut = int(note.split()[1].replace(",", ""))
    kept = text[: text.index("[…")] + text[text.index("…]") + 3 : text.index("[exit")]
    assert len(kept) + cut == 588_895


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"printf '\033[31mred\033[0m \033]0;title\007plain'", "red plain"),
        (r"printf '10%%\r50%%\r100%%\nnext\r\n'", "100%\nnext"),
        (r"printf 'a\007b\000c'", r"a\x07b\x00c"),
        (r"printf '\xff\xfe is not text'", "\ufffd\ufffd is not text"),
        (r"printf 'x\xe2\x80\xaey'", r"x\u202ey"),
        (r"printf '\033[2J\033[1;1H\033P$q\033\\ok'", "ok"),
    ],
)
def test_what_a_terminal_would_obey_is_made_harmless(bench: Bench, command: str, shown: str) -> None:
    text = bench("Bash", command=command).text
    assert text.startswith(shown + "\n[exit code 0")
    assert "\x1b" not in "".join(bench.progress)


def test_binary_output_is_not_shown(bench: Bench) -> None:
    assert bench("Bash", command="head -c 5000 /dev/urandom").text.startswith(
        "[5,000 bytes of binary output, not shown"
    )


def test_a_working_directory_that_is_gone_is_reported_to_be(bench: Bench) -> None:
    (bench.root / "d").mkdir()
    bench.ctx.workspace.cwd = bench.root / "d"
    (bench.root / "d").rmdir()
    text = bench("Bash", command="pwd").text
    assert text.startswith(f"{bench.root}\n[exit code 0")
    assert f"[{bench.root}/d no longer exists: this ran in {bench.root}]" in text
    bench.root.rmdir()
    assert "no longer exists" in bench.fails("Bash", command="true")


@pytest.mark.usefixtures("killed_at_timeout")
def test_the_time_limit_comes_from_the_call_or_the_settings(bench: Bench) -> None:
    bench.ctx.settings["shell_timeout"] = 0.2
    text = bench("Bash", command="sleep 30").text
    assert (
        "timed out after 0.2 s; the command and its children were killed. Give a longer timeout (at most 600000" in text
    )
    bench.ctx.settings["shell_timeout"] = 601
    assert "must be positive" in bench.fails("Bash", command="true", timeout=-1)
    assert "must be positive" in bench.fails("Bash", command="true", timeout=0)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat > a.py <<'EOF'\nimport os\nprint(1)\nEOF\npython a.py", "Run: cat > a.py <<'EOF' … ⏎ python a.py"),
        ("cd src\nmake \\\n  all\n", "Run: cd src ⏎ make \\ ⏎ all"),
        ("cat <<EOF\nopen", "Run: cat <<EOF ⏎ open"),
    ],
)
def test_a_command_of_several_lines_is_named_without_the_text_it_passes_on(
    bench: Bench, command: str, shown: str
) -> None:
    args = bench.args("Bash", {"command": command})
    assert TOOLS["Bash"].summary(args, bench.ctx) == shown
