"""Owners, processes and an Airflow that do what they like with two keys, and what must be true after each step."""

from contextlib import suppress
from datetime import timedelta
from time import sleep
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sqlalchemy import Engine, Row, delete, select

from airflow_rankguard.guard.acquiring import Outcome
from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import GuardLost, StillInside, WrongAirflow
from airflow_rankguard.guard.outcomes import Acquired, Joined, Refused, Superseded, Unchanged
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.tables import guard_events, guard_presence, guard_waiters, guarded_runs
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Line, Member, Owner, Policy, Timings
from tests.guard.stage import key, owner
from tests.guard.world import GONE, GRAIN, Process, World

KEYS = (key("42"), key("43"))
OWNERS = (owner("r1", "left"), owner("r1", "right"), owner("r2", "left"))
RUNS = ("r1", "r2")
TIMINGS = Timings(
    startup_grace=timedelta(milliseconds=40),
    drain_timeout=timedelta(milliseconds=25),
    settle=timedelta(0),
    patience=timedelta(milliseconds=40),
    poll=timedelta(milliseconds=8),
    turn_timeout=timedelta(hours=1),
)
POLICIES = (None, None, Policy.WAIT, Policy.WAIT, Policy.COALESCE, Policy.JOIN)
keys, owners, run_ids = st.sampled_from((KEYS[0], *KEYS)), st.sampled_from(OWNERS), st.sampled_from(RUNS)
policies, chosen = st.sampled_from(POLICIES), st.integers(min_value=0, max_value=10)


class Machine(RuleBasedStateMachine):
    """Three owners, two of one run, and two keys.

    No rule has a precondition: what is possible depends on the time, and Hypothesis wants to draw the same again.

    :param engine: of a database that nobody else uses.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        with engine.begin() as connection:
            for table in (guard_events, guard_waiters, guard_presence, guarded_runs):
                connection.execute(delete(table))
        self.guard = Guard(engine, "test", timings=TIMINGS, sleep=self._pause)
        self.world = World(RUNS, TIMINGS.drain_timeout)
        self.tries: dict[Owner, int] = {}
        self.lives: list[tuple[GuardKey, Owner, Life, Policy | None]] = []
        self.held: list[tuple[GuardedRun, Owner]] = []
        self.newest_token = dict.fromkeys(KEYS, 0)
        self.barred: dict[tuple[GuardKey, Owner], str] = {}
        self.rows: dict[Any, Row[Any]] = {}
        self.leaving = False

    def _pause(self, seconds: float) -> None:
        sleep(seconds)
        if self.leaving and (process := next((one for one in self.world.processes if one.alive), None)):
            self._leave(process)

    # What the guard is asked to do

    @rule(key=keys, owner=owners, policy=policies, again=st.booleans(), leaving=st.booleans())
    def acquire(self, key: GuardKey, owner: Owner, policy: Policy | None, again: bool, leaving: bool) -> None:
        """The acquire task runs: its next try, or the same one again because the answer to its commit was lost."""
        self.tries[owner] = max(1, self.tries.get(owner, 0) + (not again))
        life = self.world.life(owner, self.tries[owner])
        self.lives.append((key, owner, life, policy))
        self.world.runs[owner.run_id].task_states[owner.guard_id, owner.map_index] = "running"
        self._acquire(key, owner, life, policy, leaving=leaving)

    @rule(which=chosen)
    def acquire_late(self, which: int) -> None:
        """An acquire of an earlier life wakes up and goes on."""
        if self.lives:
            self._acquire(*self.lives[which % len(self.lives)])

    def _acquire(
        self, key: GuardKey, owner: Owner, life: Life, policy: Policy | None, *, leaving: bool = False
    ) -> Outcome | None:
        before, line = self._active(key), self._line(key)
        self.leaving = leaving
        try:
            outcome = self.guard.acquire(key, owner, life, self.world.ask, policy=policy)
        except (GuardLost, StillInside):
            assert before is not None, "P5: an owner lost a key that was free"
            assert before.run_id == owner.run_id, "P5: another's processes were taken for the owner's own"
            return None
        self._judge(key, owner, outcome, before)
        self._judge_turn(owner, outcome, line, policy)
        return outcome

    @rule(key=keys, run_id=run_ids)
    def claim(self, key: GuardKey, run_id: str) -> None:
        """The start gate claims a key for a run."""
        gate, before, line = owner(run_id, ""), self._active(key), self._line(key)
        self.leaving = False
        try:
            outcome = self.guard.claim(key, gate, self.world.ask)
        except (GuardLost, StillInside):
            assert before is not None
            return
        self._judge(key, gate, outcome, before)
        self._judge_turn(gate, outcome, line, None)

    def _judge(self, key: GuardKey, owner: Owner, outcome: Outcome, before: Row[Any] | None) -> None:
        note(f"{outcome}")
        if isinstance(outcome, Acquired):
            self.barred.pop((key, owner), None)
            self.held.append((outcome.run, owner))
            self._assert_alone(key, outcome.run.token)
        if isinstance(outcome, Superseded | Joined) or (isinstance(outcome, Refused) and outcome.waiter is None):
            self.barred[key, owner] = "refused"
        if isinstance(outcome, Refused) and isinstance(blocker := outcome.blocker, GuardedRun):
            theirs = (blocker.owner.guard_id, owner.guard_id)
            same_run = blocker.owner.run_id == owner.run_id
            assert not (same_run and (theirs[0] in ("", theirs[1]))), "P5: an owner was blocked by itself"
            said = self.world.runs[blocker.owner.run_id]
            inside = [one for one in self._presences() if before is not None and one.guarded_run_id == before.id]
            ended = said.answers and said.state in (RunState.SUCCESS, RunState.FAILED)
            assert not ended or inside, "P7: a run that ended, with nobody inside, still blocks"

    def _line(self, key: GuardKey) -> Line:
        return self.guard.lines([key])[0]

    def _judge_turn(self, owner: Owner, outcome: Outcome, line: Line, policy: Policy | None) -> None:
        """Judge what became of a line, for one that came forward; here for a key without one."""

    def _judge_taking_back(self, owner: Owner, line: Line) -> None:
        """The same for a fence that took a free key back."""

    @rule(key=keys, owner=owners, task=st.sampled_from(("first", "second")), leaving=st.booleans())
    def enter(self, key: GuardKey, owner: Owner, task: str, leaving: bool) -> None:
        """A guarded task starts its next try, which Airflow does when it has given the earlier one up."""
        task_id = f"{owner.guard_id}.{key.resource}.{task}"
        earlier = [one for one in self.world.processes if one.owner == owner and one.member.task_id == task_id]
        for process in earlier:
            self.world.give_up(process)
        member = Member(task_id=task_id, try_number=len(earlier) + 1)
        before, line, self.leaving = self._active(key), self._line(key), leaving
        try:
            entered = self.guard.enter(key, owner, self.world.life(owner), member, self.world.ask)
        except (GuardLost, StillInside) as refused:
            note(f"{refused}")
            return
        assert not any(process.alive and not process.excused for process in earlier), "P2: two tries of one task"
        self._assert_alone(key, entered.run.token)
        assert before is not None or (key, owner) not in self.barred, f"in, but {self.barred[key, owner]}"
        assert (entered.run.owner, entered.presence.token) == (owner, entered.run.token)
        if before is None:
            self._judge_taking_back(owner, line)
        self.barred.pop((key, owner), None)
        self.held.append((entered.run, owner))
        self.world.begin(Process(key, owner, entered.presence))

    @rule(which=chosen, failed=st.booleans(), leaving=st.booleans(), with_owner=st.booleans())
    def release(self, which: int, failed: bool, leaving: bool, with_owner: bool) -> None:
        """A release or a failure of any life that has ever held a key, of the last one as of one long gone."""
        if not self.held:
            return
        run, owner = self.held[-1 - which % len(self.held)]
        before = self._rows()
        named = before.get(run.id)
        self.leaving = leaving
        try:
            if failed:
                outcome = self.guard.fail(run.id, run.token, self.world.ask, "broken")
            else:
                outcome = self.guard.release(run.id, run.token, self.world.ask, owner=owner if with_owner else None)
        except StillInside:
            return
        late = named is None or named.ended_at is not None or named.token != run.token
        if late and (failed or not with_owner):
            assert isinstance(outcome, Unchanged), "P4: a late release ended something"
            assert self._rows() == before, "P4: a late release changed something"
        for identity, row in self._rows().items():
            assert row == before[identity] or row.run_id == owner.run_id, "P4: another's row was changed"

    @rule(which=chosen, now=st.booleans(), leaving=st.booleans())
    def force_release(self, which: int, now: bool, leaving: bool) -> None:
        """A person frees the key that some row held, or holds."""
        if not self.rows:
            return
        row = sorted(self.rows.values(), key=lambda one: one.term, reverse=True)[which % len(self.rows)]
        before, key = self._rows(), GuardKey(kind=row.kind, resource=row.resource)
        if row.id not in before:
            return
        if now and before[row.id].ended_at is None:
            for process in self.world.alive(key):
                process.excused = True
        self.leaving = leaving
        with suppress(StillInside):
            self.guard.force_release(row.id, self.world.ask, reason="wrong", by="ada", now=now)
        changed = [identity for identity, after in self._rows().items() if after != before[identity]]
        assert set(changed) <= {row.id}, "P4: another row than the named one was changed"

    @rule(dry_run=st.booleans())
    def sweep(self, dry_run: bool) -> None:
        """A sweep goes over all active rows; a dry one, and one that asks a strange Airflow, changes none."""
        before, self.leaving = self._rows(), False
        try:
            list(self.guard.sweep(self.world.ask, dry_run=dry_run))
        except WrongAirflow:
            dry_run = True
            known = [self.world.runs[row.run_id] for row in before.values()]
            assert not any(run.answers and run.state is not RunState.MISSING for run in known), "it knew a run"
        assert not dry_run or self._rows() == before, "a dry or refused sweep changed something"

    @rule()
    def prune(self) -> None:
        """All history goes but the newest row of each key, and with it who was refused."""
        self.guard.prune(timedelta(0))
        after = self._rows()
        for row in self.rows.values():
            newest = max(one.term for one in self.rows.values() if one.resource == row.resource)
            assert row.id in after or (row.ended_at is not None and row.term < newest), "a needed row went"
        self.rows = after
        self.barred = {bar: why for bar, why in self.barred.items() if why == "forced" and self._is_newest(*bar)}

    # What processes and Airflow do

    @rule(which=chosen, how=st.sampled_from(("leaves", "is killed", "is given up", "asks")))
    def process(self, which: int, how: str) -> None:
        """A process goes, with or without a word, or goes on although Airflow calls its task failed."""
        alive = [one for one in self.world.processes if one.alive]
        if not alive:
            return
        process = alive[which % len(alive)]
        match how:
            case "leaves":
                self._leave(process)
            case "is killed":
                process.gone = True
            case "is given up":
                self.world.give_up(process)
            case "asks" if process.healthy:
                self.guard.assert_held(process.key, process.presence)

    def _leave(self, process: Process) -> None:
        self.guard.leave(process.presence)
        self.world.give_up(process, "success")
        process.gone = True

    @rule(run_id=run_ids, state=st.sampled_from(GONE))
    def run_ends(self, run_id: str, state: RunState) -> None:
        """A DagRun succeeds, fails, or is deleted."""
        self.world.end(run_id, state)

    @rule(run_id=run_ids)
    def run_is_cleared(self, run_id: str) -> None:
        """A DagRun starts again, and its acquire tasks with it."""
        self.world.clear(run_id)

    @rule(run_id=run_ids, answers=st.booleans(), tells_tasks=st.booleans())
    def airflow_answers(self, run_id: str, answers: bool, tells_tasks: bool) -> None:
        """Airflow can or cannot be asked about a run, and does or does not know the states of its tasks."""
        run = self.world.runs[run_id]
        run.answers, run.tells_tasks = answers, tells_tasks

    @rule()
    def time_passes(self) -> None:
        """Every grace and every drain runs out."""
        sleep(1.2 * TIMINGS.startup_grace.total_seconds())

    # What is always true

    @invariant()
    def one_holder_and_tokens_that_grow(self) -> None:
        """P1 and P3."""
        rows = sorted(self._rows().values(), key=lambda row: row.term)
        for one in KEYS:
            own = [row for row in rows if row.resource == one.resource]
            active = [row for row in own if row.ended_at is None]
            assert len(active) <= 1, "P1: two active rows"
            tokens = [row.token for row in own]
            assert tokens == sorted(set(tokens)), "P3: tokens out of order"
            assert all(row.ended_at is not None for row in own[:-1]), "P3: an older row is active"
            if active:
                assert active[0].token >= self.newest_token[one], "P3: a smaller token than before"
            self.newest_token[one] = max([self.newest_token[one], *tokens])

    @invariant()
    def work_does_not_overlap(self) -> None:
        """P2, and its other side: who is inside rightly is never pushed out."""
        rows, present = self._rows(), {presence.id for presence in self._presences()}
        for process in self.world.processes:
            if process.healthy:
                row = rows[process.presence.guarded_run_id]
                assert (row.ended_at, row.token) == (None, process.presence.token), f"P2: {process.member} lost its row"
                assert process.presence.id in present, f"P2: {process.member} was pushed out"

    @invariant()
    def history_stays(self) -> None:
        """P4 and P6: an ended row never changes, and only the death of its DagRun lets others end it."""
        rows = self._rows()
        for identity, before in self.rows.items():
            row = rows[identity]
            if before.ended_at is not None:
                assert row == before, "P4: an ended row was changed"
            elif row.cause == "reclaimed":
                self._assert_dead(row)
            if row.cause == "forced":
                self.barred[GuardKey(kind=row.kind, resource=row.resource), self._owner(row)] = "forced"
        self.rows = rows

    def _assert_dead(self, row: Row[Any]) -> None:
        run = self.world.runs[row.run_id]
        recreated = row.run_started_at is not None and row.run_started_at != run.started_at
        assert run.answers, "P6: a run of which nothing is known was reclaimed"
        assert run.state in GONE or recreated, "P6: a living run was reclaimed"
        if run.state is RunState.MISSING:
            age = row.ended_at - (row.started_at or row.claimed_at)
            assert age + timedelta(seconds=GRAIN) >= TIMINGS.startup_grace, "P6: reclaimed within its grace"

    def _assert_alone(self, key: GuardKey, token: int) -> None:
        others = [one for one in self.world.alive(key) if one.presence.token != token and not one.excused]
        assert not others, f"P2: {others[0].member} of another life is still at work"

    # Looks past the guard

    def _rows(self) -> dict[Any, Row[Any]]:
        with self.engine.begin() as connection:
            return {row.id: row for row in connection.execute(select(guarded_runs))}

    def _presences(self) -> list[Row[Any]]:
        with self.engine.begin() as connection:
            return list(connection.execute(select(guard_presence)))

    def _active(self, key: GuardKey) -> Row[Any] | None:
        own = (row for row in self._rows().values() if row.resource == key.resource and row.ended_at is None)
        return next(own, None)

    def _is_newest(self, key: GuardKey, owner: Owner) -> bool:
        own = [row for row in self.rows.values() if row.resource == key.resource]
        return bool(own) and self._owner(max(own, key=lambda row: row.term)) == owner

    @staticmethod
    def _owner(row: Row[Any]) -> Owner:
        parts = ("deployment", "dag_id", "run_id", "guard_id", "map_index")
        return Owner(**{part: getattr(row, part) for part in parts})
