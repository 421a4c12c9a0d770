"""Statements that are built once: most of what a sentence costs its process is putting its statement together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import BindParameter, Connection, FromClause, bindparam

P = ParamSpec("P")
T = TypeVar("T")


def built_once(build: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[Connection, P], T]:
    """Keep what a function builds for each database and each set of arguments; the arguments are few and hashable."""
    built: dict[Hashable, T] = {}

    def statement(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        wanted = (connection.dialect.name, *args, *kwargs.items())
        if wanted not in built:
            built[wanted] = build(connection, *args, **kwargs)
        return built[wanted]

    return statement


class StandIn:
    """Has for each part of a value a parameter, which is told when the statement is spoken."""

    def __init__(self, name: str, table: FromClause) -> None:
        self._name = name
        self._table = table

    def __getattr__(self, part: str) -> BindParameter[Any]:
        return bindparam(_parameter(self._name, part), type_=self._table.c[part].type)


def stand_in(kind: type[T], name: str, table: FromClause) -> T:  # noqa: ARG001 - what the caller takes it for
    """Stand for a value of a kind in a statement that is built once.

    :param name: what ``told`` calls it.
    :param table: has columns of the names and types of its parts.
    """
    return cast(T, StandIn(name, table))


def told(name: str, value: object, parts: Iterable[str]) -> dict[str, Any]:
    """The parameters of a statement in which something stands in for a value."""
    return {_parameter(name, part): getattr(value, part) for part in parts}


def _parameter(name: str, part: str) -> str:
    # No column has two underscores: SQLAlchemy would set a column of the parameter's name.
    return f"{name}__{part}"
