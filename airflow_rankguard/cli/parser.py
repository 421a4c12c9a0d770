"""The verbs as an argparse parser, for the console script."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

from airflow_rankguard.cli.commands import RANKGUARD, Group, Verb


def build_parser() -> ArgumentParser:
    """Make the parser; what it parses has the verb's home as ``home``."""
    parser = ArgumentParser(prog=RANKGUARD.name, **_about(RANKGUARD))
    _add_members(parser, RANKGUARD)
    return parser


def _add_members(parser: ArgumentParser, group: Group) -> None:
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for member in group.members:
        subparser = subparsers.add_parser(member.name, help=member.help, **_about(member))
        if isinstance(member, Group):
            _add_members(subparser, member)
        else:
            _add_options(subparser, member)


def _add_options(parser: ArgumentParser, verb: Verb) -> None:
    for option in verb.options:
        parser.add_argument(*option.flags, **option.settings)
    parser.set_defaults(home=verb.home)


def _about(member: Verb | Group) -> dict[str, Any]:
    about = member.help[0].upper() + member.help[1:] + "."
    return {"description": about, "epilog": member.epilog, "formatter_class": RawDescriptionHelpFormatter}
