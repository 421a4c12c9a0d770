"""``python -m demo run|up|down``: what stands behind ``make demo``, ``make up`` and ``make down``."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

from demo.background import down, keep, up
from demo.hold import AlreadyHeld
from demo.place import ROOT
from demo.playing import play
from demo.stage import BrokenPromise
from demo.teller import Teller
from harness.rest import RestError

PR_SET_PDEATHSIG = 1
TROUBLE = (AlreadyHeld, BrokenPromise, ChildProcessError, RestError, TimeoutError)
VERBS = {"run": play, "up": up, "down": down}


def main() -> int:
    """Carry out one verb.

    :returns: the exit code: 0, 1 with a sentence when something is not as promised, 130 or 143 when interrupted.
    """
    options = _arguments()
    if options.verb == "keep":
        keep(options.folder)
        return 0
    _end_with_parent()
    teller = Teller()
    try:
        VERBS[options.verb](options.folder, teller)
    except TROUBLE as error:
        teller.fail(f"Not as promised: {error}")
        return 1
    except KeyboardInterrupt as interrupt:
        teller.fail("Interrupted. Every process that this started has ended.")
        return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("verb", choices=(*VERBS, "keep"), help="keep is what `up` runs in the background")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="where it keeps its files")
    return parser.parse_args()


def _end_with_parent() -> None:
    """Be interrupted by SIGTERM as by Ctrl-C; on Linux also when the parent, such as make, is killed."""
    signal.signal(signal.SIGTERM, _interrupt)
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(signum: int, _: object) -> None:
    raise KeyboardInterrupt(signum)


if __name__ == "__main__":
    sys.exit(main())
