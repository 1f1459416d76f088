"""Run the tests of a `find` without its actions, to learn what the actions would act on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from agent_cli.policy.operands import resolve_word
from agent_cli.policy.programs.find import FindCall, FindTerm
from agent_cli.policy.shell.words import Word
from agent_tools.process.child import run_child

_MAX_BYTES = 4 << 20
_SYSTEM_PATH = "/usr/bin:/bin"


def found_by(call: FindCall, action: FindTerm, cwd: str, seconds: float) -> list[str] | None:
    """Return the paths that reach an action of `find`, relative to `cwd` as `find` prints them.

    None if that cannot be found out: an unknown word or test, no system `find`, too many files, or no time left. Only
    tests run; they read names and attributes of files.
    """
    selecting = call.selecting(action)
    program = shutil.which("find", path=_SYSTEM_PATH)
    if selecting is None or program is None or seconds <= 0 or any(w.why for w in (*call.starts, *selecting)):
        return None
    options = {"named": ["-H"], "below": ["-L"], "": ["-P"]}[call.follows]
    starts = [path.text for word in call.starts for path in resolve_word(word, cwd)]
    words = [program, *options, *starts, *_expanded(selecting, cwd)]
    try:
        found = run_child(words, seconds=seconds, most=_MAX_BYTES, cwd=cwd, env={"LC_ALL": "C"})
    except (OSError, ValueError, TimeoutError, OverflowError):
        return None
    return [name.decode("utf-8", "surrogateescape") for name in found.out.split(b"\0") if name]


def _expanded(words: Sequence[Word], cwd: str) -> list[str]:
    """Return words as the shell passes them: an unquoted glob is replaced by the files that match it."""
    return [
        text for word in words for text in ([p.text for p in resolve_word(word, cwd)] if word.pattern else [word.text])
    ]
