"""airflow_rankguard itself, through `Guard`, with a connection that stays open."""

from __future__ import annotations

from serving import serve

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Life, Owner


class Guarded:
    """The product. Airflow's part, asked about a blocker, is a constant: it says that the blocker runs."""

    def prepare(self, dsn: str) -> None:
        engine = create_guard_engine(dsn, create=True)
        schema.upgrade(engine)
        engine.dispose()

    def connect(self, dsn: str) -> None:
        self.guard = Guard(create_guard_engine(dsn, pooled=True), "benchmark")
        self.runs = 0

    def take(self, key: str) -> bool:
        self.runs += 1
        owner = Owner(deployment="benchmark", dag_id="dag", run_id=f"{id(self)}-{self.runs}", guard_id="guard")
        outcome = self.guard.acquire(GuardKey(kind="benchmark", resource=key), owner, Life(try_number=1), _it_runs)
        if isinstance(outcome, Acquired):
            self.run = outcome.run
            return True
        return False

    def give(self) -> None:
        self.guard.release(self.run.id, self.run.token, _it_runs)


def _it_runs(_owner: Owner) -> Answer:
    return Answer(state=RunState.RUNNING)


if __name__ == "__main__":
    serve(Guarded())
