"""Which rows somebody is shown: those one may see, and of those the ones that were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Double, FromClause, ScalarSelect, and_, literal, select, true

from airflow_rankguard.guard.dialects import ago
from airflow_rankguard.guard.frozen import Frozen
from airflow_rankguard.guard.store.rows import SLOT
from airflow_rankguard.guard.values import Owner

Kind = Literal["run", "waiter"]
FILTERS = (*SLOT, "dag_id", "run_id")


class Sight(Frozen):
    """Whose rows somebody may see.

    :param deployment: the Airflow that says so.
    :param dag_ids: the DAGs of that Airflow whose rows show; None when all rows show, whosesoever.
    """

    deployment: str
    dag_ids: frozenset[str] | None = None

    def covers(self, owner: Owner) -> bool:
        """Say whether an owner's rows show."""
        if self.dag_ids is None:
            return True
        return owner.deployment == self.deployment and owner.dag_id in self.dag_ids

    def condition(self, table: FromClause) -> ColumnElement[bool]:
        """``covers`` in SQL."""
        if self.dag_ids is None:
            return true()
        return and_(table.c.deployment == self.deployment, table.c.dag_id.in_(sorted(self.dag_ids)))


class Shown(Frozen):
    """Which rows a panel shows; None means any.

    :param after: the order's columns of the last row of the page before; None for the first page.
    :param limit: at most so many, and one more, which tells that there is another page.
    """

    sight: Sight
    tenant: str | None = None
    kind: str | None = None
    resource: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    after: tuple[Any, ...] | None = None
    limit: int = 50

    def conditions(self, table: FromClause) -> Iterator[ColumnElement[bool]]:
        """What a row of a table fulfils that shows."""
        yield self.sight.condition(table)
        for column in FILTERS:
            if (value := getattr(self, column)) is not None:
                yield table.c[column] == value


class Behind(Frozen):
    """Who is before a waiter, or has refused somebody."""

    kind: Kind
    id: UUID
    owner: Owner


def before(age: timedelta) -> ScalarSelect[Any]:
    """So long ago, by the database's clock: one time for the whole statement, so that an index finds it."""
    return select(ago(literal(age.total_seconds(), Double))).scalar_subquery()
