"""procrastinate: one running job per `lock`, one waiting job per `queueing_lock`.

Its documentation combines both to have one job run at a time without a line behind it:
https://procrastinate.readthedocs.io/en/stable/howto/advanced/queueing_locks.html. Neither refuses a job while another
one runs, so a key is taken as a worker does it, by the app's `configure_task(...).defer_async` and its `JobManager`'s
`fetch_job`; when that finds nothing to run, the key is refused and `cancel_job_by_id_async` takes the job back. Each
key is a queue of its own, so that nobody fetches another key's job. `finish_job` gives back.

It is given a pool of one connection that commits each statement and is not checked before each use, which saves three
round trips a call: https://procrastinate.readthedocs.io/en/stable/howto/basics/connector.html.
"""

from __future__ import annotations

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import Status
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from serving import serve


async def _commit_each(connection: AsyncConnection) -> None:
    await connection.set_autocommit(True)


class Procrastinate:
    """A job that is fetched by the process that deferred it."""

    async def prepare(self, dsn: str) -> None:
        async with App(connector=PsycopgConnector(conninfo=dsn)).open_async() as app:
            await app.schema_manager.apply_schema_async()

    async def connect(self, dsn: str) -> None:
        pool = AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False, configure=_commit_each)
        await pool.open(wait=True)
        self.app = App(connector=PsycopgConnector())
        await self.app.open_async(pool)
        self.jobs = self.app.job_manager
        self.worker = await self.jobs.register_worker()

    async def take(self, key: str) -> bool:
        deferrer = self.app.configure_task("run", queue=key, lock=key, queueing_lock=key)
        try:
            waiting = await deferrer.defer_async()
        except AlreadyEnqueued:
            return False
        self.job = await self.jobs.fetch_job(queues=[key], worker_id=self.worker)
        if self.job is None:
            await self.jobs.cancel_job_by_id_async(waiting)
            return False
        return True

    async def give(self) -> None:
        await self.jobs.finish_job(self.job, Status.SUCCEEDED, delete_job=False)


if __name__ == "__main__":
    serve(Procrastinate())
