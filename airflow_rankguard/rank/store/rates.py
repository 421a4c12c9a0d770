"""When a provider's account may be called: one row per account, by the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, Double, case, literal

from airflow_rankguard.guard.dialects import UtcDateTime, insert, seconds_since
from airflow_rankguard.rank.tables import rank_rates

rates = rank_rates.c
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def take_permits(connection: Connection, account: str, step: float, *, now: datetime | None = None) -> float:
    """Take an account's next turn in one statement: now, or when those who came before have had theirs.

    :param step: how many seconds after this turn the next one may begin.
    :param now: None means the database's clock.
    :returns: in how many seconds the turn begins.
    """
    moment = seconds_since(literal(EPOCH, UtcDateTime())) if now is None else literal(now.timestamp(), Double)
    length = literal(step, Double)
    begins = case((rates.next_at > moment, rates.next_at), else_=moment)
    statement = (
        insert(connection, rank_rates)
        .values(account=account, next_at=moment + length)
        .on_conflict_do_update(index_elements=[rates.account], set_={"next_at": begins + length})
        .returning((rates.next_at - length - moment).label("wait"))
    )
    wait: float = connection.execute(statement).scalar_one()
    return max(0.0, wait)
