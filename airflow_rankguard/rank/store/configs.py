"""Configs and their keywords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from airflow_rankguard.guard.dialects import clock, insert
from airflow_rankguard.rank.errors import ConfigExists, UnknownConfig
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.tables import rank_configs, rank_keywords
from airflow_rankguard.rank.values import Device, RankConfig

configs, keywords = rank_configs.c, rank_keywords.c


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What an import did, in numbers of keywords: new or back again, there before, and no longer checked."""

    added: int
    known: int
    dropped: int


def add_config(connection: Connection, config: RankConfig) -> None:
    """Add a config.

    :raises ConfigExists: its id is taken.
    """
    statement = (
        insert(connection, rank_configs)
        .values(
            id=config.id,
            domain=config.domain,
            location_code=config.location_code,
            language_code=config.language_code,
            devices=",".join(config.devices),
            depth=config.depth,
            tenant=config.tenant,
            enabled=config.enabled,
            created_at=clock(),
        )
        .on_conflict_do_nothing(index_elements=[configs.id])
        .returning(configs.id)
    )
    if connection.execute(statement).first() is None:
        raise ConfigExists(config.id)


def list_configs(connection: Connection) -> tuple[RankConfig, ...]:
    """Give every config, by tenant and id."""
    rows = connection.execute(select(rank_configs).order_by(configs.tenant, configs.id))
    return tuple(_config(row) for row in rows)


def get_config(connection: Connection, config_id: str) -> RankConfig:
    """Give one config.

    :raises UnknownConfig: there is none of this id.
    """
    row = connection.execute(select(rank_configs).where(configs.id == config_id)).first()
    if row is None:
        raise UnknownConfig(config_id)
    return _config(row)


def count_keywords(connection: Connection) -> dict[str, int]:
    """Give the number of keywords in use by config id; a config without any is not in it."""
    statement = (
        select(keywords.config_id, func.count().label("number")).where(keywords.active).group_by(keywords.config_id)
    )
    return {row.config_id: row.number for row in connection.execute(statement)}


def list_keywords(connection: Connection, config_id: str) -> tuple[Keyword, ...]:
    """Give a config's keywords in use, in their order."""
    statement = (
        select(keywords.id, keywords.keyword)
        .where(keywords.config_id == config_id, keywords.active)
        .order_by(keywords.ordinal, keywords.id)
    )
    return tuple(Keyword(id=row.id, text=row.keyword) for row in connection.execute(statement))


def import_keywords(
    connection: Connection, config_id: str, wanted: Sequence[str], *, replace: bool = False
) -> Imported:
    """Put keywords behind those of a config, or in their stead; measured positions of dropped ones stay.

    :param wanted: in their one spelling, in order, each once.
    :param replace: drop the keywords that are not wanted, and take over the order.
    :raises UnknownConfig: there is no config of this id.
    """
    _lock_config(connection, config_id)
    present = {keyword.text for keyword in list_keywords(connection, config_id)}
    added = [keyword for keyword in wanted if keyword not in present]
    dropped = present.difference(wanted) if replace else set()
    if replace:
        connection.execute(update(rank_keywords).where(keywords.config_id == config_id).values(active=False))
        _put_keywords(connection, config_id, wanted, first=0)
    else:
        last = select(func.max(keywords.ordinal)).where(keywords.config_id == config_id)
        _put_keywords(connection, config_id, added, first=1 + (connection.scalar(last) or 0))
    return Imported(added=len(added), known=len(wanted) - len(added), dropped=len(dropped))


def _lock_config(connection: Connection, config_id: str) -> None:
    statement = select(configs.id).where(configs.id == config_id).with_for_update()
    if connection.execute(statement).first() is None:
        raise UnknownConfig(config_id)


def _put_keywords(connection: Connection, config_id: str, wanted: Sequence[str], *, first: int) -> None:
    if not wanted:
        return
    new = insert(connection, rank_keywords)
    connection.execute(
        new.on_conflict_do_update(
            index_elements=[keywords.config_id, keywords.keyword],
            set_={"ordinal": new.excluded.ordinal, "active": new.excluded.active},
        ),
        [
            {"config_id": config_id, "keyword": keyword, "ordinal": ordinal, "active": True}
            for ordinal, keyword in enumerate(wanted, start=first)
        ],
    )


def _config(row: Row[Any]) -> RankConfig:
    return RankConfig(
        id=row.id,
        domain=row.domain,
        location_code=row.location_code,
        language_code=row.language_code,
        devices=tuple(Device(device) for device in row.devices.split(",")),
        depth=row.depth,
        tenant=row.tenant,
        enabled=row.enabled,
    )
