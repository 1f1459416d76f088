"""A command that becomes a process of a fork server: `python -I -S joined_fork.py SOCKET MODULE ARGUMENTS`.

For programs that the program under test starts itself. It hands over its standard streams, its folder and its
environment, and ends as the forked process does; that one ends when its standard input does.
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as control:
    control.connect(sys.argv[1])
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(control, [b"."], [theirs.fileno(), 0, 1, 2])
    os.umask(mask := os.umask(0))
    request = {"module": sys.argv[2], "args": sys.argv[3:], "session": False, "terminal": False}
    here = {"cwd": os.getcwd(), "env": dict(os.environ), "umask": mask}  # noqa: PTH109
    ours.sendall(json.dumps({**request, **here}).encode())
    ours.shutdown(socket.SHUT_WR)
    with ours.makefile("rb") as answers:
        answers.readline()
        sys.exit(os.waitstatus_to_exitcode(int(answers.readline())) & 0xFF)
