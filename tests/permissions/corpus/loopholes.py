"""Ways around a rule that a review found: other forms of a path, other openings of a file, names that stand for another
program.
"""

from tests.permissions.corpus import group

_PROGRAMS = tuple(f"Bash({name}:*)" for name in ("tar", "git diff", "rg", "sort", "find", "zip", "rsync", "cp"))

CASES = [
    *group(
        "file names as options under a rule",
        "ask",
        "tar cf y.tar *",
        "tar cf y.tar ./a *",
        "git diff *",
        "git diff -*",
        "rg x *",
        "sort *",
        "find *",
        "zip y *",
        "rsync * ../dash2",
        "cp [!b]* ../src",
        cwd="dash",
        allow=_PROGRAMS,
    ),
    *group(
        "file names as options under a rule",
        "allow",
        "tar cf y.tar -- *",
        "tar cf y.tar ./*",
        "git diff -- *",
        "sort a*",
        "cp a* ../src",
        cwd="dash",
        allow=_PROGRAMS,
    ),
    *group("file names as options under a rule", "allow", "tar cf y.tar *.txt", "cp *.txt src", allow=_PROGRAMS),
    *group("a file opened for both", "ask", "cat <>.env", "cat <>.env >a.txt", "{ cat; } <>.env", mode="acceptEdits"),
    *group("a file opened for both", "ask", "cat <>.env", "cat <> notes", allow="Edit"),
    *group("a file opened for both", "deny", "cat <>.env", "cat <> ./src/../.env", allow="Bash", deny="Read(.env)"),
    *group("a file opened for both", "allow", "cat <>a.txt", mode="acceptEdits"),
    *group(
        "git diff of a file outside",
        "ask",
        "git diff {out}/x:a /dev/null",
        "git diff -- {out}/x:a.txt /dev/null",
        "git diff -- - {out}/secret.txt",
        "git diff ./../outside/secret.txt a.txt",
        "git diff -- a.txt src/../../outside/secret.txt",
        "git diff x:/../../outside/secret.txt a.txt",
        allow="Bash(git diff:*)",
    ),
    *group("git diff of a file outside", "ask", "git diff {out}/x:a /dev/null", "git diff -- {out}/x:a.txt /dev/null"),
    *group(
        "git diff of a file inside",
        "allow",
        "git diff HEAD:a.txt HEAD:b.txt",
        "git diff a.txt src/../b.txt",
        "git diff origin/main...HEAD -- src",
        allow="Bash(git diff:*)",
    ),
]
