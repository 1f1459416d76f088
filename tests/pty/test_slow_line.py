"""The line of the tests between a terminal and its user."""

import os
import pty

from tests.support.slow_line import SLOW, SlowLine


def test_a_line_that_was_hung_up_takes_nothing_from_the_files_that_get_its_numbers() -> None:
    for _ in range(100):
        terminal, program = pty.openpty()
        line = SlowLine(terminal, SLOW)
        os.write(program, b"x" * 200)
        os.close(line.user)
        line.close()
        pipes = [os.pipe() for _ in range(2)]
        for _, write in pipes:
            os.write(write, b"kept")
            os.close(write)
        # Here a reader that still ran would read one of the pipes.
        os.sched_yield()
        for read, _ in pipes:
            assert os.read(read, 10) == b"kept"
            os.close(read)
        os.close(program)
