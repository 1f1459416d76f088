"""Programs that run other commands, and those about the machine: packages, services, processes, rights."""

from __future__ import annotations

from collections.abc import Iterator

from agent_cli.policy.programs.arguments import Arguments
from agent_cli.policy.programs.effects import Touch, of_interpreter
from agent_cli.policy.programs.row import INSTALLS, PROCESSES, RIGHTS, SERVICE, Row, expand_rows


def _kill(found: Arguments) -> Iterator[Touch]:
    """Yield what kills all processes: -1 behind the signal, or 0 for those of the terminal's group."""
    yield from (Touch("run", w) for w in found.words[1:] if w.text == "-1")
    yield from (Touch("run", w) for w in found.operands if w.text == "0")


_HIDES = Row("", partly=True, own=True, hides=True)
# Shells whose code is followed where it is an argument.
SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ksh", "ash"))
# Wrappers: options without and with a value, then `wraps` words, then the command.
WRAPPER_ROWS = expand_rows({
    "command": Row(wraps=0, flags="-p"),
    "builtin": Row(wraps=0),
    # With -a, a multi-call program would become another one, as it acts by its own name.
    "exec": Row(wraps=0, flags="-c -l"),
    "nohup": Row(wraps=0),
    "timeout": Row(wraps=1, flags="-v --verbose --foreground --preserve-status", value="-k --kill-after -s --signal"),
    "nice": Row(wraps=0, value="-n --adjustment"),
    "time": Row(wraps=0, flags="-p"),
    "stdbuf": Row(wraps=0, value="-i -o -e --input --output --error"),
    "setsid": Row(wraps=0, flags="-w --wait"),
    "ionice": Row(wraps=0, flags="-t", value="-c -n --class --classdata"),
    "env": Row(wraps=0, flags="-i --ignore-environment - -0 --null", value="-u --unset", chdir="-C --chdir"),
    "sudo": Row(wraps=0, flags="-n -E -H -S -k -b --non-interactive", value="-u -g --user --group",
        chdir="-D --chdir", gated=True, outside=RIGHTS),
    "doas": Row(wraps=0, flags="-n", value="-u", gated=True, outside=RIGHTS),
    # These may do more than run the command, which is judged all the same.
    "flock": Row(wraps=1, flags="-s -x -e -n -u -F -o -v --shared --exclusive --nonblock --no-fork --close --verbose",
        value="-w -E --timeout --wait --conflict-exit-code", gated=True, hides=True),
    "watch": Row(wraps=0, flags="-d -t -b -e -g -c -p -x --differences --no-title --beep --errexit --chgexit --color "
        "--precise --exec", value="-n --interval", gated=True, hides=True),
    "strace ltrace": Row(wraps=0, flags="-f -ff -c -C -q -qq -v -t -tt -ttt -T -i -k -y -yy -r -S",
        value="-e -s -a -p -u", gated=True, hides=True),
    "taskset": Row(wraps=1, flags="-c --cpu-list", gated=True, hides=True),
    "chronic unbuffer caffeinate xvfb-run eatmydata catchsegv setarch torsocks proxychains": Row(
        wraps=0, gated=True, hides=True),
    "xargs": Row(wraps=0, flags="-0 --null -r --no-run-if-empty -t -x", value="-n -P -L -d -I -s", gated=True),
})  # fmt: skip


def _shell(found: Arguments) -> Iterator[Touch]:
    return of_interpreter(found.words, found.operands, shell=True)


SYSTEM_ROWS = expand_rows({
    **WRAPPER_ROWS,
    # Programs that may run what their arguments, input or the network tell them to, in ways not followed here.
    "parallel script expect at batch entr direnv mise asdf nix-shell guix proot "
    "fakeroot source . trap enable alias sg newgrp run0 dbus-run-session xvfb-run torsocks proxychains chronic "
    "unbuffer "
    "chrt numactl prlimit linux32 linux64 setpriv runcon capsh cgexec choom valgrind perf hyperfine "
    "rlwrap faketime ld.so ts chpst softlimit setuidgid xdotool nodemon watchexec "
    "compgen complete fc bind mapfile readarray firejail env.exe wsl run-parts start-stop-daemon dbus-launch logsave "
    "cross-env cross-env-shell env-cmd dotenv dotenvx doppler infisical chamber aws-vault concurrently npm-run-all "
    "run-s run-p start-server-and-test foreman honcho overmind mprocs tini dumb-init gosu su-exec s6-setuidgid "
    "dtach adb vagrant screen tmux systemd-run xterm": _HIDES,
    "busybox toybox": Row("", partly=True, hides=True, starts_after="*"),
    "gdb": Row("", partly=True, hides=True, interprets=True),
    "zsh ksh ash fish csh tcsh rbash mksh lksh posh yash nu xonsh elvish osh": Row(
        "", partly=True, hides=True, interprets=True, versions="--version"),
    "bash sh dash": Row("", partly=True, own=True, effects=_shell, interprets=True, versions="--version"),
    "chroot unshare nsenter su runuser pkexec bwrap": Row("", partly=True, hides=True, outside=RIGHTS),
    "mount umount modprobe insmod sysctl iptables nft useradd usermod adduser": Row("", partly=True, outside=RIGHTS),
    "apt apt-get": Row("", partly=True, starts="-o --option -c --config-file", network="*", outside=INSTALLS),
    "apk dnf yum pacman brew": Row("", partly=True, network="*", outside=INSTALLS),
    "aptitude dpkg rpm zypper port sdk volta corepack nix-env chsh": Row(
        "", partly=True, outside=INSTALLS),
    "rustup": Row("", partly=True, outside=INSTALLS, starts_after="run"),
    "pyenv rbenv nvm": Row("", partly=True, outside=INSTALLS, starts_after="exec"),
    "nix crontab": Row("", partly=True, hides=True, outside=INSTALLS),
    "systemctl loginctl machinectl busctl dbus-send gdbus notify-send xdg-open open lxc virsh minikube kind k3d": Row(
        "", partly=True, outside=SERVICE),
    "flatpak snap": Row("", partly=True, network="*", outside=SERVICE),
    "kill": Row("", value="-s -n", effects=_kill),
    "pkill killall": Row("", partly=True, read="-F --pidfile", outside=PROCESSES),
})  # fmt: skip
