"""systemctl, loginctl and crontab that behave like the real ones, as far as `agent every` uses them.

Each keeps what it knows in a folder: units that are enabled, the crontab, what was called.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_SYSTEMCTL = """\
import os, sys
from pathlib import Path
home, words = Path(os.environ["FAKE_WAKERS"]), sys.argv[1:]
units = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ["HOME"], ".config"), "systemd/user")
with (home / "called").open("a") as file:
    file.write("systemctl " + " ".join(words) + "\\n")
if words[:1] != ["--user"] or not (home / "systemd").exists():
    sys.exit("Failed to connect to bus: No medium found")
verb, rest = words[1], [word for word in words[2:] if not word.startswith("-")]
if verb == "show-environment":
    print("HOME=/root\\nLANG=C.UTF-8\\nPATH=/usr/bin:/bin\\n" + (home / "systemd").read_text(), end="")
elif verb == "is-enabled":
    on = (home / f"enabled-{rest[0]}").exists()
    print("enabled" if on else "disabled")
    sys.exit(0 if on else 1)
elif verb in ("enable", "disable"):
    if not (units / rest[0]).exists():
        sys.exit(f"Failed to {verb} unit: Unit file {rest[0]} does not exist.")
    mark = home / f"enabled-{rest[0]}"
    mark.touch() if verb == "enable" else mark.unlink(missing_ok=True)
"""
_LOGINCTL = """\
import os, sys
from pathlib import Path
if "show-user" not in sys.argv:
    sys.exit(1)
print("Linger=" + ("yes" if Path(os.environ["FAKE_WAKERS"], "linger").exists() else "no"))
"""
_CRONTAB = """\
import os, sys
from pathlib import Path
home = Path(os.environ["FAKE_WAKERS"])
table = home / "crontab"
if not (home / "cron").exists():
    sys.exit("You (user) are not allowed to use this program (crontab)")
if sys.argv[1:] == ["-l"]:
    if not table.exists():
        sys.exit("no crontab for user")
    print(table.read_text(), end="")
elif sys.argv[1:] == ["-"]:
    text = sys.stdin.read()
    if text and not text.endswith("\\n"):
        sys.exit("new crontab file is missing newline before EOF, can't install.")
    table.write_text(text)
else:
    sys.exit("usage")
"""


class FakeWakers:
    """What this machine has. `env` has a PATH with these programs."""

    def __init__(self, folder: Path, *, systemd: bool = False, cron: bool = False, linger: bool = False) -> None:
        self.folder = folder / "wakers"
        programs = self.folder / "bin"
        programs.mkdir(parents=True)
        for name, text in (("systemctl", _SYSTEMCTL), ("loginctl", _LOGINCTL), ("crontab", _CRONTAB)):
            (programs / name).write_text(f"#!{sys.executable}\n{text}")
            (programs / name).chmod(0o755)
        for name, there in (("systemd", systemd), ("cron", cron), ("linger", linger)):
            if there:
                (self.folder / name).touch()
        self.env = {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE_WAKERS": str(self.folder), "USER": "user"}

    @property
    def crontab(self) -> str | None:
        path = self.folder / "crontab"
        return path.read_text() if path.exists() else None
