"""What happens in a session, from its two files: the records of its log, and what its worker writes besides.

A worker writes an event that is not recorded with the number of the record that it follows. So both files together are
one sequence, whichever is read first.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli import StoredSession
from agent_cli.kernel.session.files import LogLine
from agent_tools.fs.safe_files import open_regular

# Bytes read at once.
_READ_BYTES = 1 << 20
# Maximum length of the first line of a live file.
_MAX_HEAD_BYTES = 128


class LiveLine:
    """An event that is not recorded. after: number of the record that it follows."""

    def __init__(self, after: int, event: dict[str, Any]) -> None:
        self.after, self.event = after, event


class SessionReader:
    """Reads what has happened in a session since it was read last."""

    def __init__(self, log: Path, live: Path | None) -> None:
        self._log, self._live = StoredSession(log).tail(), live
        self._head, self._live_offset = b"", 0
        self._early: list[LiveLine] = []

    @property
    def restarts(self) -> int:
        """How often the log was read from its start again."""
        return self._log.restarts

    def read(self) -> list[LogLine | LiveLine]:
        """Return some of the next records and events, in order; none if there are none now."""
        # In this order: a live line follows records that have been read, or those that are not on the disk yet.
        records = self._log.read()
        lines = [*self._early, *self._read_live()]
        self._early = [line for line in lines if line.after > self._log.last]
        lines = [line for line in lines if line.after <= self._log.last]
        found: list[LogLine | LiveLine] = []
        at = 0
        for record in records:
            while at < len(lines) and lines[at].after < record.seq:
                found.append(lines[at])
                at += 1
            found.append(record)
        return [*found, *lines[at:]]

    def _read_live(self) -> list[LiveLine]:
        if self._live is None:
            return []
        try:
            fd = open_regular(self._live)
        except OSError:
            return []
        try:
            # Its first line names the worker: the inode of a file that was removed can be the next one's.
            head, whole_line, _ = os.pread(fd, _MAX_HEAD_BYTES, 0).partition(b"\n")
            if not whole_line:
                return []
            if head != self._head:
                self._head, self._live_offset, self._early = head, len(head) + 1, []
            data = bytearray()
            while piece := os.pread(fd, _READ_BYTES, self._live_offset + len(data)):
                data += piece
        finally:
            os.close(fd)
        whole = bytes(data[: data.rfind(b"\n") + 1])
        self._live_offset += len(whole)
        found = []
        for line in whole.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                fields = json.loads(line)
                found.append(LiveLine(int(fields["after"]), fields["event"]))
        return found
