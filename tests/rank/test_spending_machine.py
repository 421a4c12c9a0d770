"""Tasks, retries, clears and crashes in any order: never a reservation that passes the ceiling, nothing lost."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from time import sleep
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.rank import store
from airflow_rankguard.rank.spending import Reservation, Spending, Taken
from airflow_rankguard.rank.values import Device
from tests.answers import Answers
from tests.databases import Database
from tests.guard.sessions.pausing import Paused
from tests.machines import run_machine
from tests.rank.conftest import AddDue
from tests.rank.till import SHOP, Till, refused

EXAMPLES = {"sqlite": 40, "postgres": 30}
STEPS = 25
TASKS = 3
# Such that sums in floating point are not what they seem.
AMOUNTS = [Decimal(tenths) / 10 for tenths in range(8)]
CEILINGS = (Decimal("0.3"), Decimal("0.7"), Decimal("1.1"), None)
tasks, amounts = st.integers(min_value=0, max_value=TASKS - 1), st.sampled_from(AMOUNTS)
chosen = st.integers(min_value=0, max_value=10)


class SpendingMachine(RuleBasedStateMachine):
    """A few parallel tasks of a DagRun, and what they must have spent by their own account.

    :param till: of a database that nobody else uses.
    """

    def __init__(self, till: Till) -> None:
        super().__init__()
        self.till = till
        till.empty()
        self.ceiling: Decimal | None = CEILINGS[0]
        self.spendings = [self._spending() for _ in range(TASKS)]
        self.ceilings: list[Decimal | None] = [self.ceiling] * TASKS
        self.made: dict[str, Reservation] = {}
        self.costs: dict[str, Decimal] = {}
        self.tasks: dict[str, str] = {}
        self.settled: set[str] = set()

    def _spending(self) -> Spending:
        return self.till.spending(None if self.ceiling is None else str(self.ceiling))

    @rule(task=tasks, most=amounts, queued=st.booleans())
    def reserve(self, task: int, most: Decimal, queued: bool) -> None:
        """A task wants to make a call: it may exactly when the call fits."""
        spending, ceiling = self.spendings[task], self.ceilings[task]
        if self._fits(most, ceiling):
            self._note(self.till.reserve(spending, str(most), queued=queued))
            return
        reached = refused(lambda: self.till.reserve(spending, str(most)))
        assert (reached.spent, reached.most, reached.ceiling) == (self._spent(), most, ceiling)

    @rule(most=amounts, other=amounts, undone=st.booleans())
    def reserve_at_once(self, most: Decimal, other: Decimal, undone: bool) -> None:
        """A task comes while another's reservation is neither committed nor undone: it goes by what becomes of it."""
        database, run = self.till.database, self.till.run
        budget = database.statement(store.open_budget, run.id, SHOP)
        one, two = (
            Reservation(id=uuid4(), keyword_id=self.till.keywords[0], device=Device.MOBILE, most=amount)
            for amount in (most, other)
        )
        ceiling = self.ceiling or Decimal(0)
        scope = (budget, run.id, SHOP)
        with ThreadPoolExecutor(1) as pool, Paused(database, store.reserve, *scope, one, ceiling) as reserving:
            second = pool.submit(lambda: database.statement(store.reserve, *scope, two, ceiling))
            sleep(0.005)
            if undone:
                reserving.roll_back()
            else:
                fits = self._fits(most, self.ceiling)
                assert reserving.commit() == fits
                self._note(*[one] * fits)
            fits = self._fits(other, self.ceiling)
            assert second.result() == fits
            self._note(*[two] * fits)

    def _spent(self) -> Decimal:
        return sum(self.costs.values(), Decimal(0))

    def _fits(self, most: Decimal, ceiling: Decimal | None) -> bool:
        return self._spent() + most <= (ceiling or 0)

    def _note(self, *made: Reservation) -> None:
        self.made |= {str(one.id): one for one in made}
        self.costs |= {str(one.id): one.most for one in made}

    @rule(task=tasks, which=chosen, cost=amounts)
    def settle(self, task: int, which: int, cost: Decimal) -> None:
        """A call's price comes to one of the tasks, for the first time or not."""
        if self.made:
            name = list(self.made)[which % len(self.made)]
            self.spendings[task].settle(self.made[name], cost)
            if name not in self.settled:
                self.costs[name] = cost
                self.settled.add(name)

    @rule(task=tasks, which=chosen)
    def post(self, task: int, which: int) -> None:
        """The provider takes a call as a task."""
        queued = [name for name, made in self.made.items() if made.queued]
        if queued:
            name = queued[which % len(queued)]
            self.tasks[name] = f"task-{which}"
            self.spendings[task].note_tasks([Taken(self.made[name].id, self.tasks[name])])

    @rule(task=tasks, ceiling=st.sampled_from(CEILINGS))
    def crash_and_retry(self, task: int, ceiling: Decimal | None) -> None:
        """A task's process dies; the next try knows nothing but the ledger, and another ceiling, perhaps."""
        self.ceiling = ceiling
        self.spendings[task], self.ceilings[task] = self._spending(), ceiling

    @rule()
    def clear(self) -> None:
        """The run ends and is cleared; one task of the old life has not noticed."""
        self.till.clear()
        self.spendings[1:] = [self._spending() for _ in range(TASKS - 1)]
        self.ceilings[1:] = [self.ceiling] * (TASKS - 1)

    @invariant()
    def nothing_is_lost(self) -> None:
        """The ledger and its budget say what was spent, and every task what is to be collected."""
        assert self.till.counted() == self._spent()
        known = self.tasks.keys() | (self.made.keys() - self.settled)
        queued = {name: self.tasks.get(name) for name in known if self.made[name].queued}
        for spending in self.spendings[:2]:
            assert {str(posted.id): posted.task_id for posted in spending.posted()} == queued


@pytest.mark.timeout(600)
def test_no_reservation_passes_the_ceiling_in_any_order(
    database: Database, answers: Answers, add_due: AddDue, backend: str
) -> None:
    """Three tasks of a run, its retries, its clears, its lost prices: what fits is reserved, and nothing else."""
    engine = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    machine = partial(SpendingMachine, Till(engine, answers, add_due))
    run_machine(machine, examples=EXAMPLES[backend], steps=STEPS)
    engine.dispose()
