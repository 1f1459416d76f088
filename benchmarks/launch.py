"""Starts one measured process and reports what it used; run as a script of its own, without the site module.

The kernel counts a new process's memory from that of its parent, so the parent must be small; and a parent with one
child knows exactly whose CPU time it is told. Usage: launch.py REPORT_FD PROGRAM ARGUMENT...
"""

import os
import sys
import time


def main() -> None:
    """Run the program with our standard streams; its code, times and peak memory go to the descriptor."""
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    argv = sys.argv[2:]
    started = time.monotonic()
    pid = os.posix_spawn(argv[0], argv, os.environ)
    _, status, used = os.wait4(pid, 0)
    wall = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    # Linux counts in KiB, macOS in bytes.
    peak = used.ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    os.write(report, f"{code} {started} {wall} {cpu} {peak}".encode())


main()
