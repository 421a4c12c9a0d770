"""chancy: of all jobs with one `unique_key`, one may wait or run: https://tkte.ch/chancy/howto/jobs.html.

`Chancy.push_ex` keeps a second job out and returns the first one's reference, so it does not say who was first, and it
writes either way. `Worker.fetch_jobs` says it: each key is a queue of its own, and whoever fetches the key's job has
taken the key. `Worker.queue_update` and `flush` end the job and give back: https://tkte.ch/chancy/chancy.worker.html.

It pushes on a connection that commits each statement, and notifies nobody, which saves three round trips.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from chancy import Chancy, Job, Queue, QueuedJob, Worker
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from serving import serve


class ChancyJob:
    """A job that is fetched by the process that pushed it."""

    async def prepare(self, dsn: str) -> None:
        async with Chancy(dsn, no_default_plugins=True) as chancy:
            await chancy.migrate()

    async def connect(self, dsn: str) -> None:
        self.chancy = Chancy(dsn, notifications=False, no_default_plugins=True)
        await self.chancy.pool.open(wait=True)
        self.worker = Worker(self.chancy)
        self.connection = await AsyncConnection.connect(dsn, autocommit=True, row_factory=dict_row)

    async def take(self, key: str) -> bool:
        async with self.connection.cursor() as cursor:
            await self.chancy.push_ex(cursor, Job(func="run", queue=key, unique_key=key))
        fetched = await self.worker.fetch_jobs(Queue(key), self.connection)
        if not fetched:
            return False
        (self.job,) = fetched
        return True

    async def give(self) -> None:
        ended = replace(
            self.job, state=QueuedJob.State.SUCCEEDED, completed_at=datetime.now(UTC), attempts=self.job.attempts + 1
        )
        await self.worker.queue_update(ended)
        await self.worker.flush()


if __name__ == "__main__":
    serve(ChancyJob())
