"""The known checkers and language servers: for which files, their arguments, and whether they run a project's code.

Of each group, only the first that is installed and allowed is used. To add a checker, add a row.

mypy runs only if the configuration that it would read does not make it run the project's code.
"""

from __future__ import annotations

import configparser
import glob
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from agent_tools.diagnostics import parsers
from agent_tools.fs.safe_files import read_regular
from agent_tools.record import Value

_MAX_CONFIG_BYTES = 1 << 20


def mypy_may_run_code(root: Path) -> bool:
    """Return True if a configuration that mypy may read names plugins or an interpreter, or cannot be read."""
    # mypy takes the first in its working directory or above it, up to the root of the repository.
    for folder in (root, *root.parents):
        for name in ("mypy.ini", ".mypy.ini", "setup.cfg", "pyproject.toml"):
            try:
                text = read_regular(folder / name, _MAX_CONFIG_BYTES).decode()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ValueError):
                return True
            if _has_code_keys(name, text):
                return True
        if (folder / ".git").exists() or (folder / ".hg").exists():
            break
    return False


def _has_code_keys(name: str, text: str) -> bool:
    keys = {"plugins", "python_executable"}
    if name == "pyproject.toml":
        try:
            table = tomllib.loads(text).get("tool", {}).get("mypy", {})
        except (ValueError, AttributeError, RecursionError):
            return True
        return not isinstance(table, dict) or bool(keys & {str(key).casefold() for key in table})
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return True
    named = {key for section in parser.sections() for key in parser[section]}
    return bool(keys & {key.casefold().replace("-", "_") for key in named})


def leaves_out(row: CheckerRow | ServerRow, file: Path, root: Path) -> bool:
    """Return True if the mypy configuration of the project lists the files to check, and this is none of them."""
    if row.name != "mypy" or not file.is_relative_to(root):
        return False
    named = _mypy_files(root)
    places = [os.path.normpath(root / place) for name in named for place in [name, *_matches(root, name)]]
    return bool(named) and not any(file.is_relative_to(place) for place in places)


def _matches(root: Path, name: str) -> list[str]:
    """Expand a pattern as mypy does."""
    return glob.glob(name, root_dir=root, recursive=True) if glob.has_magic(name) else []


def _mypy_files(root: Path) -> list[str]:
    """Return `files` of the configuration that mypy reads in a folder, or an empty list."""
    for name in ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"):
        try:
            text = read_regular(root / name, _MAX_CONFIG_BYTES).decode()
            if name == "pyproject.toml":
                table = tomllib.loads(text)["tool"]["mypy"]
            else:
                parser = configparser.RawConfigParser(strict=False)
                parser.read_string(text)
                table = dict(parser["mypy"])
            files = table.get("files", [])
            words = files.split(",") if isinstance(files, str) else files
            return [word.strip() for word in words if word.strip()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, configparser.Error):
            continue
    return []


_NO_MARKER: tuple[str, ...] = ()


class CheckerRow(Value):
    """A program that checks one file and ends.

    args: command line, in which {file}, {folder}, {marker} and {language} are replaced.
    stdin: it reads the text from standard input, so it can also check the text before an edit.
    runs_code: it may run the project's code (configuration files that are programs, plugins, build scripts).
    markers: it needs one of these files in the folder of the file or above.
    at_marker: it runs in the folder of its marker, not in the root of the workspace.
    success_codes: its exit codes unless it failed.
    rule_args: the arguments that permission rules match; the others only control the output.
    """

    name: str
    group: str
    suffixes: tuple[str, ...]
    args: tuple[str, ...]
    parser: parsers.Parser
    stdin: bool = False
    runs_code: Literal["no", "yes", "mypy"] = "no"
    markers: tuple[str, ...] = _NO_MARKER
    at_marker: bool = False
    success_codes: tuple[int, ...] = (0, 1)
    rule_args: tuple[str, ...] = ("{file}",)


class ServerRow(Value):
    """A language server on standard input and output, running for the session. Fields as in CheckerRow."""

    name: str
    group: str
    suffixes: tuple[str, ...]
    args: tuple[str, ...] = ()
    runs_code: Literal["no", "yes", "mypy"] = "no"
    markers: tuple[str, ...] = _NO_MARKER
    at_marker: bool = False


_PYTHON = (".py", ".pyi")
_SCRIPT = (".ts", ".tsx", ".mts", ".cts")
_WEB = (".js", ".jsx", ".mjs", ".cjs", *_SCRIPT)
_C = (".c", ".cc", ".cpp", ".cxx")
_ESLINT = ("eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.js",
           ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yml", ".eslintrc.yaml", ".eslintrc")  # fmt: skip
_MYPY = ("--no-color-output", "--no-error-summary", "--no-pretty", "--hide-error-context", "--show-error-codes",
         "--show-absolute-path", "{file}")  # fmt: skip
_SYNTAX = ("-fsyntax-only", "-Wall", "-fdiagnostics-color=never", "-fno-diagnostics-show-caret",
           "-iquote", "{folder}", "-x", "{language}", "-")  # fmt: skip

KNOWN: tuple[CheckerRow | ServerRow, ...] = (
    CheckerRow("ruff", "python lint", _PYTHON, (
        "check", "--output-format=json", "--no-fix", "--no-cache", "--exit-zero", "--quiet", "--stdin-filename",
        "{file}", "-"), parsers.ruff_json, stdin=True, success_codes=(0,), rule_args=("check", "{file}")),
    ServerRow("basedpyright-langserver", "python types", _PYTHON, ("--stdio",), "yes"),
    ServerRow("pyright-langserver", "python types", _PYTHON, ("--stdio",)),
    CheckerRow("pyright", "python types", _PYTHON, ("--outputjson", "{file}"), parsers.pyright_json),
    CheckerRow("mypy", "python types", _PYTHON, _MYPY, parsers.text_lines, runs_code="mypy", success_codes=(0, 1, 2)),
    ServerRow("pylsp", "python types", _PYTHON, (), "yes"),
    ServerRow("typescript-language-server", "typescript", _WEB, ("--stdio",), "yes"),
    CheckerRow("tsc", "typescript", _SCRIPT, ("--noEmit", "--pretty", "false", "-p", "{marker}"), parsers.tsc_lines,
            markers=("tsconfig.json",), success_codes=(0, 1, 2), rule_args=("--noEmit",)),
    CheckerRow("eslint", "javascript lint", _WEB, ("--format", "json", "--stdin", "--stdin-filename", "{file}"),
            parsers.eslint_json, stdin=True, runs_code="yes", markers=_ESLINT),
    ServerRow("gopls", "go", (".go",)),
    CheckerRow("go", "go", (".go",), ("vet", "{folder}"), parsers.error_lines, markers=("go.mod",), at_marker=True,
            success_codes=(0, 1, 2), rule_args=("vet", "{folder}")),
    CheckerRow("gofmt", "go", (".go",), ("-e",), parsers.error_lines, stdin=True, success_codes=(0, 2)),
    ServerRow("rust-analyzer", "rust", (".rs",), (), "yes", ("Cargo.toml",)),
    CheckerRow("cargo", "rust", (".rs",), ("check", "--message-format=json", "--quiet", "--offline"),
               parsers.cargo_json, runs_code="yes", markers=("Cargo.toml",), at_marker=True, success_codes=(0, 101),
               rule_args=("check",)),
    ServerRow("clangd", "c", (*_C, ".h", ".hpp"), (), "yes"),
    CheckerRow("clang", "c", _C, _SYNTAX, parsers.error_lines, stdin=True),
    CheckerRow("gcc", "c", _C, _SYNTAX, parsers.error_lines, stdin=True),
    CheckerRow("clang-tidy", "c lint", _C, ("--quiet", "{file}", "--"), parsers.text_lines, markers=(".clang-tidy",)),
)  # fmt: skip

# The language servers, as `programs.has_server` takes them.
SERVERS = tuple(
    (row.name, row.suffixes, row.args, row.runs_code != "no") for row in KNOWN if isinstance(row, ServerRow)
)

# Compiles what it reads from standard input, and runs nothing of it.
_COMPILE = """\
import sys
try:
    compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
except SyntaxError as error:
    version = "%d.%d" % sys.version_info[:2]
    print("<stdin>:%d: error: %s [%s]" % (error.lineno or 1, error.msg, version), file=sys.stderr)
except (MemoryError, RecursionError, ValueError):
    pass
"""
# For Python files that no other checker covers. It uses the Python that runs this program, names its version, and reads
# nothing of the project: it needs no rule and no sandbox.
SYNTAX = CheckerRow("python", "python syntax", _PYTHON, ("-I", "-S", "-W", "ignore", "-c", _COMPILE),
                    parsers.error_lines, stdin=True, success_codes=(0,))  # fmt: skip

# Language identifiers of the Language Server Protocol.
LANGUAGES = {
    ".py": "python", ".pyi": "python", ".ts": "typescript", ".mts": "typescript", ".cts": "typescript",
    ".tsx": "typescriptreact", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascriptreact", ".go": "go", ".rs": "rust", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp",
    ".cxx": "cpp", ".hpp": "cpp",
}  # fmt: skip


def find_marker(row: CheckerRow | ServerRow, file: Path, root: Path) -> Path | None:
    """Return the nearest file that the row needs, from the file's folder up to `root`; None if it is missing."""
    for folder in _up_to(file.parent, root):
        for name in row.markers:
            if (found := folder / name).is_file():
                return found
    return None


def _up_to(folder: Path, root: Path) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        yield place
        if place == root or not place.is_relative_to(root):
            return


def may_run_code(row: CheckerRow | ServerRow, root: Path) -> bool:
    """Return True if running it may run the project's code."""
    if row.runs_code == "mypy":
        return mypy_may_run_code(root)
    return row.runs_code == "yes"


def arguments(row: CheckerRow, path: Path, marker: Path | None, root: Path) -> tuple[tuple[str, ...], Path]:
    """Return the arguments of a checker for a file, and the folder where it runs."""
    cwd = marker.parent if marker is not None and row.at_marker else root
    return _substitute(row.args, path, marker), cwd


def rule_arguments(row: CheckerRow | ServerRow, path: Path) -> tuple[str, ...]:
    """Return the arguments that rules match for a file."""
    return _substitute(row.rule_args, path) if isinstance(row, CheckerRow) else row.args


def _substitute(words: tuple[str, ...], path: Path, marker: Path | None = None) -> tuple[str, ...]:
    fields = {
        "{file}": os.fspath(path),
        "{folder}": os.fspath(path.parent),
        "{marker}": os.fspath(marker or ""),
        "{language}": {"cpp": "c++"}.get(LANGUAGES.get(path.suffix, ""), "c"),
    }
    return tuple(fields.get(word, word) for word in words)
