"""Child processes that cannot outlive their owner."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from harness import warden

STOP_GRACE = 2.0


class WardedProcess:
    """One command under a warden: it ends with all its descendants when this process ends, however it ends.

    Parameters:
        command: program and arguments.
        log: file that its output is appended to.
        env: the whole environment; this process's own when None.
        stop_signal: signal that asks it to end.
        grace: seconds between that signal and SIGKILL.
        user: run it as this user; the same user when None.
        scratch: folder that is removed if this process is gone before it stopped the command.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        grace: float = STOP_GRACE,
        user: str | None = None,
        scratch: Path | None = None,
    ) -> None:
        options = [f"--owner={os.getpid()}", f"--stop-signal={stop_signal.value}", f"--grace={grace}"]
        options += [f"--user={user}"] if user else []
        options += [f"--scratch={scratch}"] if scratch else []
        with log.open("ab") as output:
            self._warden = subprocess.Popen(
                [sys.executable, "-I", warden.__file__, *options, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                env=env,
                text=True,
                start_new_session=True,
            )
        assert self._warden.stdout is not None
        with self._warden.stdout as answer:
            first_line = answer.readline()
        if not first_line:
            raise ChildProcessError(f"{command[0]} did not start: see {log}")
        self.pid = int(first_line)

    @property
    def alive(self) -> bool:
        """Whether the command itself still runs."""
        return self._warden.poll() is None and any(
            child.pid == self.pid and child.status() != psutil.STATUS_ZOMBIE
            for child in psutil.Process(self._warden.pid).children()
        )

    def tree(self) -> list[psutil.Process]:
        """List the living processes below the warden: the command, its descendants, and their orphans."""
        return psutil.Process(self._warden.pid).children(recursive=True) if self._warden.poll() is None else []

    def kill(self) -> None:
        """SIGKILL the command alone; what it started lives on until `stop`."""
        os.kill(self.pid, signal.SIGKILL)

    def signal_tree(self, signum: signal.Signals) -> None:
        """Send a signal to the command and all its descendants."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signum)

    def ask_to_stop(self) -> None:
        """Begin to stop the command and all it started; returns at once."""
        if self._warden.poll() is None:
            self._warden.terminate()

    def stop(self) -> None:
        """Stop the command and all it started; returns when nothing is left."""
        self.ask_to_stop()
        self._warden.wait()
