"""Runs one command, and ends everything it started when asked to or when the process that asked is gone.

Run as a script by `harness.processes`. Orphans of the command stay below the warden (on Linux, as their
subreaper), so a task process whose scheduler was killed is found too. It prints the command's process id.
"""

import argparse
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import psutil

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY = 0.05


class Warden:
    """Keeps one command, and all that descends from it, below this process."""

    def __init__(self, command: list[str], *, user: str | None) -> None:
        signal.signal(signal.SIGTERM, self._ask)
        _adopt_orphans()
        self.asked_to_stop = False
        self.command_runs = True
        self.pid = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True, **_identity(user)
        ).pid

    def _ask(self, *_: object) -> None:
        self.asked_to_stop = True

    def look(self) -> bool:
        """Collect what has ended and say whether anything is left."""
        time.sleep(LOOK_EVERY)
        try:
            while ended := os.waitpid(-1, os.WNOHANG)[0]:
                self.command_runs &= ended != self.pid
        except ChildProcessError:
            return False
        return True

    def end(self, stop_signal: int, grace: float) -> None:
        """Ask the command to end, wait for it, then kill until nothing is left."""
        if self.command_runs:
            os.kill(self.pid, stop_signal)
        deadline = time.monotonic() + grace
        while self.command_runs and time.monotonic() < deadline:
            self.look()
        while self.look():
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _identity(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--owner", type=int, required=True, help="process id whose end ends the command")
    parser.add_argument("--stop-signal", type=int, required=True, help="signal that asks the command to end")
    parser.add_argument("--grace", type=float, required=True, help="seconds between that signal and SIGKILL")
    parser.add_argument("--user", help="run the command as this user")
    parser.add_argument("--scratch", help="folder to remove when the owner is gone")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def main() -> None:
    """Run the command until asked to stop, until the owner is gone, or until all of it has ended."""
    options = _arguments()
    warden = Warden(options.command, user=options.user)
    print(warden.pid, flush=True)
    while warden.look() and not warden.asked_to_stop and os.getppid() == options.owner:
        pass
    warden.end(options.stop_signal, options.grace)
    if options.scratch and os.getppid() != options.owner:
        shutil.rmtree(options.scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
