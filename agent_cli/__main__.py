"""Where `agent` starts: the quick answers first, then the command line, and one place for how everything may end.

No traceback reaches a user: mistakes are one sentence and exit 2, a broken pipe is 141, an interrupt 130.
"""

from __future__ import annotations

import gc
import os
import sys

from agent_cli import __version__

# The first word that names a command; the table itself is in cli.py, and a test holds this to it.
COMMANDS = ("answer", "approve", "demo", "doctor", "models", "pending", "reject", "sessions", "show", "tools")


def main() -> None:
    """The console script."""
    # What starting makes stays; looking through it for garbage every 700 objects takes a twentieth of a short run.
    gc.set_threshold(50_000)
    sys.exit(guarded(sys.argv[1:]))


def guarded(argv: list[str]) -> int:
    """Run a command line; the exit code. Nothing escapes but a second interrupt."""
    debug = "--debug" in argv
    try:
        return dispatch(argv)
    except BrokenPipeError:
        # The reader went away; Python's own flush at exit must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # The last line of defence: no traceback reaches a user who did not ask for one.
        if debug:
            raise
        return _tell(error)


def dispatch(argv: list[str]) -> int:
    """Send a command line where it belongs."""
    if argv in (["--version"], ["-V"]):
        sys.stdout.write(f"agent {__version__}\n")
        return 0
    if "_AGENT_COMPLETE" not in os.environ and (not argv or argv[0] not in COMMANDS):
        from agent_cli.options import parse

        options = parse(argv)
        if options is not None:
            from agent_cli.start import start

            return start(options, typed=argv)
    from agent_cli.cli import run_cli

    return run_cli(argv)


def _tell(error: Exception) -> int:
    """One sentence on standard error; 2 where the person has to correct something, else 1."""
    from agent_cli.place import Mistake

    if isinstance(error, Mistake):
        print(f"agent: {error}", file=sys.stderr)
        return 2
    print(f"agent: internal error: {type(error).__name__}: {error} (--debug shows where)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
