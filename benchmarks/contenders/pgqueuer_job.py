"""pgqueuer: of all jobs with one `dedupe_key`, one may be queued or picked.

https://janbjorge.github.io/pgqueuer/guides/reliability/#idempotency says so. `Queries.enqueue` with
`on_conflict="skip"` has no id for a job whose key is held. `Queries.dequeue` then picks the job, as a worker does; each
key is an entrypoint of its own, so that nobody picks another key's job. `Queries.log_jobs` ends the job and gives back:
https://janbjorge.github.io/pgqueuer/reference/ports-and-adapters/.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from pgqueuer import PsycopgDriver, Queries
from pgqueuer.queries import EntrypointExecutionParameter
from psycopg import AsyncConnection
from serving import serve

UNLIMITED = EntrypointExecutionParameter(concurrency_limit=0)
# Its own default, after which it hands a job whose worker is silent to another one.
SILENCE = timedelta(seconds=30)


class PgQueuerJob:
    """A job that is picked by the process that enqueued it."""

    async def prepare(self, dsn: str) -> None:
        await self.connect(dsn)
        await self.queries.install()

    async def connect(self, dsn: str) -> None:
        connection = await AsyncConnection.connect(dsn, autocommit=True)
        self.queries = Queries(PsycopgDriver(connection))
        self.worker = uuid4()

    async def take(self, key: str) -> bool:
        (id_,) = await self.queries.enqueue(key, None, dedupe_key=key, on_conflict="skip")
        if id_ is None:
            return False
        (self.job,) = await self.queries.dequeue(1, {key: UNLIMITED}, self.worker, None, SILENCE)
        return True

    async def give(self) -> None:
        await self.queries.log_jobs([(self.job, "successful", None)])


if __name__ == "__main__":
    serve(PgQueuerJob())
