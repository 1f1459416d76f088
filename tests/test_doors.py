"""Files are opened through `agent_tools.fs.safe_files` and `agent_tools.fs.files`.

Programs are started through `agent_tools.process.child`.

Whatever else opens or starts something is listed here with the reason why it may.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.support.fork_server import ROOT
from tests.support.program_files import MODULES, tree

FILE_DOORS = {f"tools/agent_tools/{name}.py" for name in ("fs/safe_files", "fs/files")}
CHILD_DOOR = "tools/agent_tools/process/child.py"
OPENING = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "copyfile", "copy", "copy2", "copyfileobj"}
# By file and function (* for all of a file): what is opened, and why that is no pipe, device or endless file.
OPENS = {
    (
        "agent_cli/shells/acp/command_output.py",
        "_start",
    ): "a pipe and a script that it has just created in its own folder",
    ("agent_cli/shells/acp/command_output.py", "end"): "the exit code, in its own folder",
    ("agent_cli/__main__.py", "_discard_output"): "/dev/null",
    ("agent_cli/takeover/opencode.py", "_database"): "a database, which SQLite opens by its name",
    ("agent_cli/__main__.py", "_fill_closed_streams"): "/dev/null, and standard streams themselves",
    ("agent_cli/kernel/runtime/browser_login.py", "_open"): "an address in the browser",
    ("agent_cli/cli/__init__.py", "command_help"): "a file of the package",
    ("agent_cli/models/catalog.py", "_bytes"): "a file of the package",
    ("tools/agent_tools/shell/strays.py", "_environ"): "/proc, after each command: three times as fast",
    ("tools/agent_tools/shell/strays.py", "_last_number"): "/proc, after each command: three times as fast",
    ("agent_cli/kernel/engine/tool_call.py", "_content"): "a descriptor from `files.open_file`",
    ("agent_cli/policy/programs/members.py", "_members_of"): "an archive from memory",
    ("agent_cli/kernel/engine/structured_output.py", "read_schema"): (
        "the user names it on the command line: `<(...)` is a pipe"
    ),
    ("agent_cli/kernel/session/files.py", "sync_folder"): "a folder, which is only synced",
    ("agent_cli/kernel/session/files.py", "_create"): "a new file: O_EXCL",
    ("agent_cli/kernel/session/export.py", "write_document"): "a new file: O_EXCL",
    ("agent_cli/stage/copy.py", "*"): "files of a private folder of ours",
    ("agent_cli/stage/git_copy.py", "*"): "files of a git folder, looked at before they are copied",
    ("agent_cli/stage/changes.py", "_merged"): "new files in a new temporary folder",
    ("agent_cli/stage/tree.py", "open_entry"): "O_NONBLOCK, and looked at before it is read",
    ("agent_cli/stage/tree.py", "_copy_file"): "a new file: O_EXCL",
    ("agent_cli/stage/tree.py", "set_mode"): "a folder: O_DIRECTORY",
    ("agent_cli/stage/tree.py", "shares_blocks"): "new files in a new folder of ours",
    ("agent_cli/undo/store.py", "_look"): "O_NONBLOCK, and looked at before it is read",
    ("agent_cli/undo/undo.py", "_make"): "a new file: O_EXCL",
    ("agent_cli/shells/terminal/commands/session.py", "_bug"): "a new file: O_EXCL",
    ("agent_cli/shells/terminal/app/attachments.py", "clipboard_image"): (
        "a new file with a name by chance in a folder of ours"
    ),
    ("agent_cli/git/repository.py", "_diff"): "a new file in a new temporary folder",
    ("agent_cli/git/worktree.py", "copy_settings"): "a new file in a worktree just made",
    ("agent_cli/knowledge/plugins/obtain.py", "_write_file"): "a new file: O_EXCL",
    ("agent_cli/knowledge/plugins/obtain.py", "extract_zip"): "an archive that is open already",
    ("agent_cli/extras/reports/action.py", "*"): "the step of action.yml: files that the CI system names and makes",
    ("agent_cli/extras/reports/files.py", "write_text"): "the user names it on the command line: `/dev/stdout` is fine",
    ("agent_cli/cli/patch_run.py", "run_in_copy"): "the user names it on the command line",
    ("agent_cli/shells/headless/run.py", "_write_answer"): "the user names it on the command line",
    ("agent_cli/extras/server/app.py", "_serve_file"): "a file of the package, by a name in its folder",
    ("agent_cli/shells/terminal/app/question_panel.py", "put"): "a question, not a file",
    ("agent_cli/config/reference.py", ""): "run by hand: writes the documentation",
    ("agent_cli/shells/terminal/demo.py", "*"): "files of the package, into a new temporary folder",
    ("tools/agent_tools/generate.py", ""): "run by hand: writes tools.json",
    ("tools/agent_tools/documents/images.py", "show_image"): "an image from memory",
    ("tools/agent_tools/process/hardening.py", "_hide_secrets"): "/proc/self",
    ("tools/agent_tools/sandbox/bwrap.py", "*"): "/dev/null",
    ("tools/agent_tools/sandbox/mounts.py", "_hold"): "folders",
    ("tools/agent_tools/sandbox/mounts.py", "_create_placeholder"): "a new file: O_EXCL",
    ("tools/agent_tools/sandbox/mounts.py", "reachable_sockets"): "/proc",
    ("tools/agent_tools/sandbox/appeared.py", "*"): "relative to a descriptor; folders, and O_NOFOLLOW and O_NONBLOCK",
    ("tools/agent_tools/sandbox/watch.py", "_open"): "a folder: O_DIRECTORY",
    ("tools/agent_tools/sandbox/session.py", "_make_locked"): "a folder: O_DIRECTORY",
    ("tools/agent_tools/sandbox/session.py", "_remove_if_stale"): "a folder: O_DIRECTORY",
    ("tools/agent_tools/sandbox/session.py", "_view"): "/proc",
    ("tools/agent_tools/sandbox/conditions.py", "memory_file"): "a file in memory",
    ("tools/agent_tools/sandbox/inside.py", "*"): "/proc; in an empty directory of its own",
    ("tools/agent_tools/sandbox/launch.py", "*"): "a descriptor that was handed over; O_PATH, which opens nothing",
    ("tools/agent_tools/search/ripgrep.py", "_open_file"): "O_NONBLOCK, and looked at before it is read",
    ("tools/agent_tools/shell/output_file.py", "__init__"): "a new file: O_EXCL",
    ("tools/agent_tools/shell/output_file.py", "_make_temporary"): "a new file: O_EXCL",
}
STARTS = {
    ("agent_cli/models/litellm.py", "__init__"): "a worker of ours: its waits have clocks, its memory a limit",
    ("agent_cli/shells/terminal/startup.py", "_run_first"): "the program itself, in the user's terminal",
    ("agent_cli/stage/supervisor.py", "run"): "the program itself, in a stage, in the user's terminal",
    ("agent_cli/cli/commands/board.py", "board"): "the program itself, in place of the board",
    ("agent_cli/shells/terminal/commands/extensions.py", "_plugin"): "the program itself, likewise",
    ("agent_cli/shells/terminal/editor.py", "edit_text"): "the user's editor, which has the terminal",
    ("agent_cli/extras/reports/action.py", "run_step"): "the program itself, in a CI job, which has a clock",
    ("agent_cli/shells/terminal/demo.py", "run_tests"): "commands of the demo: with a clock",
    ("agent_cli/extras/server/pool.py", "_start"): "a worker of the server, which is to outlive it",
    ("agent_cli/extras/schedules/tick.py", "start_run"): "a run of a schedule, which is to outlive it",
    (
        "agent_cli/extras/gate/server.py",
        "answer_hooks",
    ): "a fork of the program itself, for each call, which has a deadline",
    ("agent_cli/mcp/stdio.py", "pipe"): "servers: bounded in time and output there",
    ("tools/agent_tools/web/cache.py", "_html"): "a worker that limits its own memory; with a clock",
    ("tools/agent_tools/documents/pdf.py", "_ask_worker"): "a worker that limits its own memory; with a clock",
    ("tools/agent_tools/shell/process.py", "__init__"): (
        "commands of the user, hooks: with the clocks of their settings"
    ),
    ("tools/agent_tools/process/reaper.py", "_start"): "a shell that reads only what we write, and ends with us",
    ("tools/agent_tools/sandbox/sandbox.py", "_try_sandbox"): "runs `true`, with a clock",
    ("tools/agent_tools/sandbox/session.py", "__init__"): "holds the namespace of a session and ends with it",
    ("tools/agent_tools/sandbox/session.py", "_test_entry"): "the trial of that namespace",
    ("tools/agent_tools/sandbox/launch.py", "main"): "becomes the command of the user",
}


@cache
def calls() -> tuple[tuple[str, str, ast.Call], ...]:
    """Every call of the program, with its file and the function that it stands in."""
    found: list[tuple[str, str, ast.Call]] = []
    for path in MODULES.values():
        file = str(path.relative_to(ROOT))
        todo: list[tuple[ast.AST, str]] = [(tree(path), "")]
        while todo:
            node, name = todo.pop()
            for child in ast.iter_child_nodes(node):
                inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else name
                if isinstance(child, ast.Call):
                    found.append((file, inner, child))
                todo.append((child, inner))
    return tuple(found)


def opens(call: ast.Call) -> bool:
    """Whether a call opens a file by its name."""
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(value=ast.Name(id="tomllib" | "json"), attr="load"):
            return True
        case ast.Attribute(value=ast.Name(id="Session" | "AgentSession"), attr="open"):
            return False  # a session, not a file
        case ast.Attribute(attr=name):
            return name in OPENING and not _is_value(call)
    return False


def _is_value(call: ast.Call) -> bool:
    """`copy` and `open` of something that is no path."""
    func = call.func
    assert isinstance(func, ast.Attribute)
    return func.attr.startswith("copy") and not (isinstance(func.value, ast.Name) and func.value.id == "shutil")


def starts(call: ast.Call) -> bool:
    """Whether a call starts a program, or becomes one."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="subprocess")):
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in ("system", "popen", "fork", "forkpty") or name.startswith(("exec", "spawn", "posix_spawn"))
        case ast.Attribute(value=ast.Name(id="process"), attr="run_process"):
            return False  # agent_tools.shell.process, which starts them through the door
        case ast.Attribute(attr="open_process" | "run_process" | "create_subprocess_exec" | "create_subprocess_shell"):
            return True
        case ast.Attribute(value=ast.Name(id="REAPER") | ast.Attribute(attr="REAPER"), attr="popen"):
            return True
        case ast.Name(id="Popen"):
            return True
    return False


def _key(file: str, name: str, listed: dict[tuple[str, str], str]) -> tuple[str, str]:
    return (file, "*") if (file, "*") in listed else (file, name)


def test_files_are_opened_through_the_door() -> None:
    found = {_key(f, name, OPENS) for f, name, call in calls() if opens(call) and f not in FILE_DOORS}
    assert found - OPENS.keys() == set(), "read_regular or open_regular of agent_tools.fs.safe_files opens files"
    assert OPENS.keys() - found == set(), "exceptions that are no longer needed"


def test_programs_are_started_through_the_door() -> None:
    found = {(f, name) for f, name, call in calls() if starts(call) and f != CHILD_DOOR}
    assert found - STARTS.keys() == set(), "run_child or start_child of agent_tools.process.child starts programs"
    assert STARTS.keys() - found == set(), "exceptions that are no longer needed"


def test_the_test_sees_what_it_looks_for() -> None:
    sources = ("open(x)", "os.open(x, 0)", "p.read_text()", "p.open('rb')", "json.load(f)", "shutil.copyfile(a, b)")
    assert all(opens(_call(source)) for source in sources)
    assert not any(
        opens(_call(source)) for source in ("read_text(p, 9)", "open_regular(p)", "{}.copy()", "json.loads(x)")
    )
    sources = ("subprocess.run(x)", "subprocess.Popen(x)", "os.execvp(x, y)", "anyio.open_process(x)", "os.system(x)")
    assert all(starts(_call(source)) for source in sources)
    assert not any(starts(_call(source)) for source in ("run_child(x)", "start_child(x)"))


def _call(source: str) -> ast.Call:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    return call


def test_exceptions_name_files_that_exist() -> None:
    assert all(Path(ROOT, file).is_file() for file, _ in (*OPENS, *STARTS))
