"""Where a command begins and ends: its words read, its errors one sentence on stderr, its code returned."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from airflow_rankguard.cli.complaining import complaint
from airflow_rankguard.cli.exit_codes import ExitCode, exit_code_of
from airflow_rankguard.cli.parser import build_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line.

    :param arguments: without the program's name; None means the process's own.
    :returns: the exit code.
    :raises SystemExit: the command line is wrong, or asks for help.
    """
    args = build_parser().parse_args(arguments)
    return carry_out(args.home, args)


def carry_out(home: str, args: Namespace) -> ExitCode:
    """Carry out one verb.

    :param home: the verb's module and function.
    """
    try:
        return _verb(home)(args)
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            raise
        print(f"rankguard: {complaint(error)}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print("rankguard: interrupted; closed doors stay closed.", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _verb(home: str) -> Callable[[Namespace], ExitCode]:
    module, _, function = home.partition(":")
    return cast("Callable[[Namespace], ExitCode]", getattr(import_module(module), function))
