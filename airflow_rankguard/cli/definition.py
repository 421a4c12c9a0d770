"""The verbs as Airflow's own command line takes them; Airflow imports this whenever its command line starts."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand

from airflow_rankguard.cli.commands import RANKGUARD, Group, Option, Verb


def get_rankguard_cli_commands() -> list[CLICommand]:
    """Give Airflow the group ``rankguard``."""
    return [_command(RANKGUARD)]


def _command(member: Verb | Group) -> CLICommand:
    if isinstance(member, Group):
        members = tuple(map(_command, member.members))
        return GroupCommand(name=member.name, help=member.help, subcommands=members, epilog=member.epilog)
    options = tuple(_arg(option) for option in member.options)
    return ActionCommand(
        name=member.name, help=member.help, func=_carried_out(member), args=options, epilog=member.epilog
    )


def _arg(option: Option) -> Arg:
    return Arg(flags=option.flags, **option.settings)  # type: ignore[no-untyped-call] # Airflow has no types there


def _carried_out(verb: Verb) -> Callable[[Namespace], None]:
    def command(args: Namespace) -> None:
        from airflow_rankguard.cli.main import carry_out  # noqa: PLC0415 - nothing heavier than this module before

        sys.exit(carry_out(verb.home, args))

    return command
