"""What keeps a guard database in order: recovery works without it, only later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from airflow_rankguard.guard import lining, sweeping
from airflow_rankguard.guard.answers import Answer, AskAirflow, RunState
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.outcomes import Swept
from airflow_rankguard.guard.store import deployments, looks, prunes
from airflow_rankguard.guard.values import Owner, Timings, Waiter

PRUNE_BATCH = 1000
EARLIEST = datetime.min.replace(tzinfo=UTC)


class Upkeep:
    """The verbs of upkeep, which every ``Guard`` has."""

    def __init__(
        self,
        engine: Engine,
        deployment: str,
        *,
        timings: Timings | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.deployment = deployment
        self.timings = timings or Timings()
        self._database = Database(engine, self.timings, sleep)

    def sweep(self, ask: AskAirflow, *, dry_run: bool = False) -> Iterator[Swept]:
        """Judge each active run of this deployment and reclaim the stale ones; what is yielded has happened.

        :raises WrongAirflow: that Airflow knows none of the deployment's recent runs; nothing was judged.
        """
        return sweeping.sweep(self._database, self.deployment, ask, dry_run=dry_run)

    def sweep_waiters(self, ask: AskAirflow) -> Iterator[Waiter]:
        """Take those who will never come forward out of this deployment's lines; what is yielded has happened.

        :raises WrongAirflow: that Airflow knows none of the deployment's recent runs; nobody was judged.
        """
        asking = self._asking(ask)
        sweeping.recognise(self._database, self.deployment, asking)
        return lining.sweep_waiters(self._database, self.deployment, asking)

    def sweep_dag_run(self, dag_id: str, run_id: str, ask: AskAirflow) -> list[Swept]:
        """Judge the keys that one DagRun of this deployment holds, and reclaim the stale ones."""
        return sweeping.sweep_dag_run(self._database, self.deployment, dag_id, run_id, ask)

    def prune(
        self, older_than: timedelta, *, batch: int = PRUNE_BATCH, told: Callable[[int], object] | None = None
    ) -> int:
        """Delete what ended or happened longer ago; never an active run, nor the newest of a key, nor who waits.

        :param told: hears of each batch how many rows went with it.
        :returns: how many rows went.
        """
        now = self._database.look(looks.now)
        if older_than > now - EARLIEST:  # before the calendar's first day, when nothing had happened
            return 0
        before = now - older_than
        total = 0
        for sentence in prunes.SENTENCES:
            for gone in self._pruned(sentence, before, batch):
                total += gone
                if told is not None:
                    told(gone)
        return total

    def rename_deployment(self, old: str, new: str) -> int:
        """Give all runs, waiters and events of a deployment another name.

        :returns: how many runs there were.
        """
        return self._database.transaction(deployments.rename, old, new)

    def _pruned(self, sentence: prunes.Sentence, before: datetime, batch: int) -> Iterator[int]:
        while gone := self._database.statement(sentence, before, batch):
            yield gone

    def _asking(self, ask: AskAirflow) -> AskAirflow:
        """Ask about this deployment's runs only: of another's, this Airflow does not even know that they are gone."""

        def answer(owner: Owner) -> Answer:
            if owner.deployment != self.deployment:
                return Answer(state=RunState.UNKNOWN, why=f"it belongs to deployment {owner.deployment!r}")
            return ask(owner)

        return answer
