"""The entry point of `agent`: quick answers first, then the command line; all errors end here.

No traceback reaches the user: a usage error is one sentence and exit code 2, a broken pipe 141, an interrupt 130.
"""

from __future__ import annotations

import _signal as signal  # `signal` makes enumerations, which costs a one-shot run a millisecond
import atexit
import gc
import os
import sys

# While the first modules are imported, Ctrl-C ends the program without a traceback. If it is ignored, it stays ignored.
_EARLY = __name__ == "__main__" or os.path.basename(sys.argv[0]) == "agent"
if _EARLY and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave_out_working_directory() -> None:
    """Import nothing from the working directory, where `python -m` looks first: a file there could hide any library."""
    try:
        if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109 - before pathlib is imported
            del sys.path[0]
    except OSError:
        pass  # it was deleted


if __name__ == "__main__":
    _leave_out_working_directory()

from agent_cli.kernel.version import __version__  # noqa: E402 - after the working directory was removed
from agent_tools.lazy import lazy_imports  # noqa: E402

with lazy_imports():
    from agent_cli import cli, console
    from agent_cli.cli import app, option_parser, run, staged_run
    from agent_cli.extras.gate import client
    from agent_cli.kernel import redact, run_environment
    from agent_cli.kernel.session import store
    from agent_tools import text as agent_tools_text
    from agent_tools.process import hardening

_VERSION = (["--version"], ["-V"], ["-v"])
_GONE = "The working directory no longer exists: change to another, or name one with --cd."


def main() -> None:
    """Run the console script."""
    # Objects made at startup stay; checking them for garbage every 700 objects takes a twentieth of a short run.
    gc.set_threshold(50_000)
    if sys.argv[1:] not in _VERSION:
        hardening.protect()
    _fill_closed_streams()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _repeat_dropped_interrupts()
    _exit(_flushed(guarded(sys.argv[1:])))


def _exit(code: int) -> None:
    """End the process without freeing every object first, which would take two milliseconds."""
    threads = sys.modules.get("threading")
    if threads is None or threads.active_count() == 1:
        atexit._run_exitfuncs()
        try:  # noqa: SIM105 - contextlib would be imported before Ctrl-C is handled
            sys.stderr.flush()
        except (OSError, ValueError):
            pass
        os._exit(code)
    gc.freeze()
    sys.exit(code)


def _repeat_dropped_interrupts() -> None:
    """Repeat an interrupt that arrived where Python drops exceptions, such as in callbacks of its import system."""
    show = sys.unraisablehook

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_type is not KeyboardInterrupt:
            show(dropped)
            return
        import _thread
        import time

        has_returned, main_thread = False, _thread.get_ident()

        def repeat() -> None:
            # Within this hook it would be dropped once more.
            while not has_returned:
                time.sleep(0.01)
            signal.pthread_kill(main_thread, signal.SIGINT)

        _thread.start_new_thread(repeat, ())
        has_returned = True

    sys.unraisablehook = hook


def _fill_closed_streams() -> None:
    """Open replacements for closed standard streams: otherwise a file opened later gets their number, and output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It gets this number, the lowest free one. Writing an answer to it fails, as it should; notices are lost.
            os.set_inheritable(os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY), True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the program runs
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _flushed(code: int) -> int:
    """Flush standard output and return the exit code; Python's flush at exit would print its own error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:
        _discard_output()
        print(f"agent: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return 1
    return code


def _discard_output() -> None:
    """Discard output that is still buffered."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def guarded(argv: list[str]) -> int:
    """Run a command line and return the exit code. Nothing but a second interrupt is raised."""
    debug = any(word in ("-d", "--debug") or word.startswith("--debug=") for word in argv)
    try:
        return dispatch(argv)
    except BrokenPipeError:
        # The reader is gone; Python's flush at exit must not print an error.
        _discard_output()
        return 141
    except KeyboardInterrupt:
        return 130
    except run_environment.StagedSessionError as error:
        return _in_stage(error.folder, argv, debug)
    except Exception as error:  # noqa: BLE001 - the last resort: no traceback reaches a user without --debug
        gone = isinstance(error, FileNotFoundError) and not _has_working_directory()
        return _report_error(run_environment.UsageError(_GONE) if gone else error, debug)


def _in_stage(folder: os.PathLike[str], argv: list[str], debug: bool) -> int:
    """Run a command line in the stage of its session; return the exit code."""
    try:
        return staged_run.run_in_stage(folder, argv)
    except Exception as error:  # noqa: BLE001 - as in `guarded`
        return _report_error(error, debug)


def _has_working_directory() -> bool:
    try:
        return bool(os.getcwd())  # noqa: PTH109
    except FileNotFoundError:
        return False


def dispatch(argv: list[str]) -> int:
    """Run a command line: as a command, or as a session."""
    if argv in _VERSION:
        try:
            sys.stdout.write(f"agent {__version__}\n")
        except BrokenPipeError:
            raise
        except OSError as error:  # at once where Python does not buffer
            raise run_environment.OutputError(error) from None
        return 0
    if argv[:2] == ["gate", "decide"] and not {"--help", "-h"} & set(argv):
        return client.main(argv[2:])
    if "_AGENT_COMPLETE" not in os.environ and not _names_command(argv):
        options = option_parser.parse_options(argv)
        if options is not None:
            return run.start(options, typed=argv)
    return app.run_cli(argv)


def _names_command(argv: list[str]) -> bool:
    if not argv or argv[0].startswith("-"):
        return False
    return argv[0] in cli.command_names()


def _report_error(error: Exception, debug: bool) -> int:
    """One sentence on standard error, or the traceback; 2 where the user has to correct something, else 1.

    What a file or a provider says may be in the message: it is made harmless, and secrets are taken out.
    """
    code = 2 if isinstance(error, run_environment.UsageError) else 1
    if isinstance(error, run_environment.OutputError):
        _discard_output()
    if debug:
        import traceback

        text = "".join(traceback.format_exception(error)).rstrip()
    elif code == 2 or isinstance(error, run_environment.OutputError):
        text = f"agent: {error}"
    else:
        report = store.write_crash_report(error, os.environ)
        where = f"; described in {report}" if report else ""
        text = f"agent: internal error: {type(error).__name__}: {error} (--debug shows where{where})"
    cleaned = agent_tools_text.escape_controls(redact.Redactor(os.environ)(text))
    print(cleaned if debug else console.wrap_for_terminal(2, cleaned), file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
