"""airflow_rankguard's claims, through `DueConfigs`, with a connection that stays open."""

from __future__ import annotations

from due_serving import serve

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.rank.claiming import DueConfigs
from airflow_rankguard.rank.due import Terms


class DueGuard:
    """The product: each config is judged, and due again when its own schedule says so."""

    def connect(self, dsn: str) -> None:
        self.due = DueConfigs(Database(create_guard_engine(dsn, pooled=True)))

    def claim(self, size: int) -> list[str]:
        return [decision.due.config_id for decision in self.due.claim(Terms(limit=size)).claimed]


if __name__ == "__main__":
    serve(DueGuard())
