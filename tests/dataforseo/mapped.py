"""A DagRun whose check is mapped: a few tasks at once, each with its own keyword, that pay from one budget."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from threading import Lock

from sqlalchemy import Engine, delete, func, select

from airflow_rankguard.fence import CurrentGuard
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.values import GuardedRun, Life, Member, Timings
from airflow_rankguard.hooks.rankguard import RankGuardHook
from airflow_rankguard.operators.rank_check import RankCheckOperator
from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import Summary
from airflow_rankguard.rank.errors import SourceAway, SourceRefused, SourceStopped
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.spending import Spending
from airflow_rankguard.rank.tables import rank_budgets, rank_spendings
from airflow_rankguard.rank.values import Device, Pair, RankConfig
from tests.answers import Answers
from tests.dataforseo.deaths import Deaths, Died
from tests.dataforseo.provider import Call, Fault, Provider, Queue, changed, cut, dropped, failed, http, refused, spoken
from tests.dataforseo.queueing import pass_time
from tests.guard.stage import Stage, key, owner

KEYWORDS = ("a", "b", "c")
DEPTHS = (10, 20)
ENOUGH = Decimal(1)

Death = tuple[str, int] | None
Outcome = Summary | SourceStopped | None


class CountingProvider(Provider):
    """Takes one call at a time, so that its numbers are right."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = Lock()

    def route(self, call: Call) -> None:
        with self._turn:
            super().route(call)

    def forget(self) -> None:
        """Begin anew: nothing is in the queue, paid for or about to fail, and no page is ready."""
        self.faults.clear()
        self.paid, self.queue = Counter(), Queue(done=set())


def taken(answer: Fault) -> Fault:
    """The queue takes the searches, and answers so."""

    def fault(call: Call) -> None:
        call.provider.queue.posted(call.searches)
        answer(call)

    return fault


def partly(code: int) -> Fault:
    """The queue takes the first of the searches, and has a code for the others."""

    def fault(call: Call) -> None:
        first, *others = call.searches
        answer = call.provider.queue.posted([first])
        told = {"id": "none", "status_code": code, "status_message": "No.", "cost": 0}
        call.send(answer | {"tasks": [*answer["tasks"], *(told | {"data": search} for search in others)]})

    return fault


def _hang_up(call: Call) -> None:
    call.handler.close_connection = True


def _half(call: Call) -> None:
    call.send({"tasks": "a longer text"}, cut=True)


LIVE = {
    "live: too many": http(429),
    "live: down": refused(50000),
    "live: never came": http(500),
    "live: cut": cut,
    "live: dropped": dropped,
    "live: gateway": spoken(502),
    "live: no price": changed(lambda it: (it.pop("cost"), it["tasks"][0].pop("cost"))),
    "live: failed": failed(40101, cost=0.002),
    "live: no money": refused(40200),
}
POST = {
    "post: too many": http(429),
    "post: never came": http(500),
    "post: refused": refused(40501),
    "post: no money": refused(40200),
    "post: gateway": taken(http(502)),
    "post: cut": taken(_half),
    "post: dropped": taken(_hang_up),
    "post: one too fast": partly(40202),
    "post: one refused": partly(40501),
    "post: one without money": partly(40210),
}
PAGE = {
    "page: too many": http(429),
    "page: down": failed(50000),
    "page: dropped": _hang_up,
    "page: failed": failed(40101),
    "page: gone": failed(40401),
}
LIST = {"list: down": http(500), "list: dropped": _hang_up}
QUEUE = (*POST, *PAGE, *LIST)


class MappedCheck:
    """The tries of a DagRun's tasks, as the operator makes them, with real money, rows and guard.

    :param engine: of a database that nobody else uses.
    :param shop: a config, whose id and depth are changed.
    :param provider: the one that Airflow's connection ``serp`` names.
    """

    def __init__(self, engine: Engine, shop: RankConfig, provider: CountingProvider) -> None:
        self.engine, self.provider, self.deaths = engine, provider, Deaths(engine)
        self.hook = RankGuardHook()
        vars(self.hook).update(engine=engine, timings=Timings())
        self.stage = Stage(engine, Answers())
        self.configs = {
            depth: replace(shop, id=f"shop-{depth}", depth=depth, devices=tuple(Device)) for depth in DEPTHS
        }
        with engine.begin() as connection:
            for config in self.configs.values():
                store.add_config(connection, config)
                store.import_keywords(connection, config.id, KEYWORDS)
        self.begun = 0
        self.config, self.keywords, self.run = self._begin(DEPTHS[0])

    def is_whole(self) -> bool:
        """Whether the run's record says that all is done: by the sums of what its tasks have done."""
        with self.engine.begin() as connection:
            run = store.get_run(connection, self.run.id)
        assert run
        return run.finished_at is not None and run.progress.total == len(self.pairs()) and run.progress.open == 0

    def begin(self, depth: int) -> None:
        """Let the DagRun before end; another begins, and nobody has paid for anything."""
        self.stage.release(self.run)
        self.config, self.keywords, self.run = self._begin(depth)

    def _begin(self, depth: int) -> tuple[RankConfig, Sequence[Keyword], GuardedRun]:
        self.provider.forget()
        self.begun += 1
        self.clears = self.tries = 0
        config = self.configs[depth]
        with self.engine.begin() as connection:
            for table in (rank_spendings, rank_budgets):
                connection.execute(delete(table))
            keywords = store.list_keywords(connection, config.id)
        return config, keywords, self.stage.held(f"r{self.begun}", resource=config.id)

    def clear(self) -> None:
        """The DagRun ends, and somebody clears it: it comes back with another guarded run, and nothing measured."""
        self.clears += 1
        self.stage.release(self.run)
        life = Life(try_number=1, clear_number=self.clears)
        self.run = self.stage.held(f"r{self.begun}", life, resource=self.config.id)

    def attempt(self, task: int, mode: str, ceiling: Decimal, death: Death = None) -> Outcome:
        """One of the tasks begins a try, or comes back from a deferral.

        :returns: what it ends with; None where its process has died.
        """
        self.tries += 1
        guard = self._enter(Member(task_id="check", map_index=task, try_number=self.tries))
        try:
            with self.deaths.at(*(death or (None,))):
                return self._check(guard, task, mode, ceiling)
        except (SourceAway, SourceRefused) as stopped:
            return stopped
        except Died:
            return None
        finally:
            guard.leave()

    def _enter(self, member: Member) -> CurrentGuard:
        own, life = key(self.config.id), Life(clear_number=self.clears)
        entered = self.stage.guard.enter(own, owner(f"r{self.begun}"), life, member, self.stage.answers)
        presence = entered.presence
        return CurrentGuard(
            key=own, token=presence.token, guard=self.stage.guard, presence=presence, process_id=os.getpid()
        )

    def _check(self, guard: CurrentGuard, task: int, mode: str, ceiling: Decimal) -> Summary:
        operator = RankCheckOperator(
            task_id="check",
            config_id=self.config.id,
            dataforseo_conn_id="serp",
            mode=mode,
            max_cost=ceiling,
            keyword_ids=[self.keywords[task].id],
        )
        return operator._check(guard, self.hook)[0]

    def fails(self, task: int, fault: str) -> None:
        """Let the provider's next answer of a kind, to one of the tasks where it can tell, be a fault."""
        keyword, queue = KEYWORDS[task], self.provider.queue
        for faults, waiting in (
            (LIVE, self.provider.faults[keyword]),
            (POST, queue.post_faults),
            (PAGE, queue.page_faults[keyword]),
            (LIST, queue.list_faults),
        ):
            if fault in faults:
                waiting.append(faults[fault])

    def mend(self) -> None:
        """The provider answers everything right from now on, and everything is ready."""
        queue = self.provider.queue
        for waiting in (self.provider.faults, queue.post_faults, queue.page_faults, queue.list_faults):
            waiting.clear()
        queue.done = None

    def pass_time(self, minutes: int) -> None:
        """Let time go by."""
        pass_time(self.engine, minutes)

    @property
    def spending(self) -> Spending:
        """What the ledger knows."""
        return Spending(Database(self.engine), self.run.id, self.config.id, None)

    @property
    def spent(self) -> Decimal:
        """What the ledger says, whose sum it must be."""
        kept = self.spending.spent()
        price = func.coalesce(rank_spendings.c.spent, rank_spendings.c.reserved, type_=rank_spendings.c.spent.type)
        with self.engine.begin() as connection:
            assert sum(connection.scalars(select(price)), Decimal(0)) == kept
        return kept

    def settled(self) -> Counter[Pair]:
        """How often each search was paid for at once, by the ledger, in this life."""
        rows = rank_spendings.c
        own = (rows.guarded_run_id == self.run.id, rows.spent > 0, rows.queued.is_(False))
        with self.engine.begin() as connection:
            found = connection.execute(select(rows.keyword_id, rows.device).where(*own)).all()
        return Counter((row.keyword_id, Device(row.device)) for row in found)

    def done(self) -> dict[Pair, str | None]:
        """What this life has measured."""
        with self.engine.begin() as connection:
            return store.list_done(connection, self.run.id)

    def pairs(self, tasks: Sequence[int] = range(len(KEYWORDS))) -> dict[Pair, tuple[str, str]]:
        """What tasks are to measure, in the provider's words."""
        return {(self.keywords[task].id, device): (KEYWORDS[task], str(device)) for task in tasks for device in Device}
