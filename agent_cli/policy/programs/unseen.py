"""Find what may run a program that is not visible as a word of the command, for comparison with deny rules.

That may be an option (`tar --to-command`), a script (`awk` with `system`), a variable (`GIT_PAGER`), a git alias, or
another spelling of a wrapper. Programs run by an interpreter or a build tool are not found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent_cli.policy.programs.git import USUAL_PROGRAM
from agent_cli.policy.programs.invocation import invocation
from agent_cli.policy.programs.rows.system import SHELLS
from agent_cli.policy.programs.table import row_of
from agent_cli.policy.shell.words import SimpleCommand
from agent_tools.lazy import lazy_pattern

# Variables whose value is run as a program or shell code.
_RUN_VARIABLES = lazy_pattern(
    r"\w*PAGER|\w*EDITOR|VISUAL|\w*_ASKPASS|GIT_EXTERNAL_DIFF|GIT_SSH(?:_COMMAND)?|GIT_PROXY_COMMAND|GIT_EXEC_PATH|"
    r"GIT_CONFIG\w*|LESSOPEN|LESSCLOSE|RSYNC_RSH|TAR_OPTIONS|MANOPT"
)


def hidden_programs(part: SimpleCommand) -> Iterator[tuple[str, str]]:
    """Yield descriptions of whatever may run another program, each with the word that an allow rule would name."""
    if not part.words:
        return
    for text in (w.text for w in (*part.assigns, *part.words[1:])):
        name, equals, value = text.partition("=")
        setting = text in {w.text for w in part.assigns} or part.words[0].text in ("export", "declare", "typeset")
        if setting and equals and _RUN_VARIABLES.fullmatch(name) and not USUAL_PROGRAM.fullmatch(value):
            yield f"{name}, whose value is run,", text
    own = os.path.basename(part.words[0].text)
    name = own.casefold().removesuffix(".exe")
    row = row_of(name)
    if name != own and (row.wraps is not None or row.hides or name in SHELLS):
        yield f"{own}, which may be {name} and run other commands,", own
    if re.match(r"ld(?:-linux|-musl|\.so|\.lld)?[\w.-]*\.so", name) or (name == "hash" and len(part.words) > 2):
        yield f"{own}, which runs other commands,", own
    found = invocation(part)
    # What `npx`, `uv run` and the like start may be a starter of programs itself.
    started = found.row if found.runner else None
    if started is not None and (started.wraps is not None or started.hides or found.name in SHELLS):
        yield f"{found.name}, which runs other commands,", found.words[0].text
    yield from found.starts_unseen()
