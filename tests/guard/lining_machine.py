"""The same owners in line: turns that pass, waiters that come, go and die, and what must be true of a line."""

from contextlib import suppress
from datetime import datetime
from math import inf
from time import sleep
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import rule
from sqlalchemy import Row, update

from airflow_rankguard.guard.acquiring import Outcome
from airflow_rankguard.guard.answers import RunState
from airflow_rankguard.guard.errors import StillInside, WrongAirflow
from airflow_rankguard.guard.outcomes import Acquired, Joined, Refused, Superseded
from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.turns import TASK_STATES_DONE, ahead_of
from airflow_rankguard.guard.values import GuardKey, Line, Owner, Policy, Waiter
from tests.guard.machine import KEYS, OWNERS, TIMINGS, Machine, chosen, keys, policies, run_ids
from tests.guard.stage import FIRST, owner

TURN = TIMINGS.turn_timeout


class LiningMachine(Machine):
    """Waiters keep coming forward or not; at the end of each example all that still do are served in their order."""

    # What waiters, holders and time do

    @rule(key=keys, order=st.permutations(OWNERS), policy=policies)
    def all_come(self, key: GuardKey, order: list[Owner], policy: Policy | None) -> None:
        """Everybody wants the same key."""
        for one in order:
            self.acquire(key, one, policy, again=True, leaving=False)

    @rule(key=keys)
    def the_holder_leaves(self, key: GuardKey) -> None:
        """All its processes end, and it releases the key, unless Airflow cannot tell that they have."""
        self._free(key, tries=2)

    @rule(key=keys, comes=st.booleans())
    def a_turn_passes(self, key: GuardKey, comes: bool) -> None:
        """A key that is free has been free for one turn longer, and the second in line comes or does not."""
        self._let_a_turn_pass(key)
        in_line = [waiter for waiter in self._line(key).waiters if waiter.ticket is not None]
        if comes and len(in_line) > 1:
            self._come_forward(key, in_line[1])

    def _let_a_turn_pass(self, key: GuardKey) -> None:
        own = [row for row in self._rows().values() if row.resource == key.resource]
        newest = max(own, key=lambda row: row.term, default=None)
        if newest is not None and newest.ended_at is not None:
            self._let_end(newest, newest.ended_at - TURN)

    def _let_end(self, row: Row[Any], when: datetime) -> None:
        with self.engine.begin() as connection:
            connection.execute(update(guarded_runs).where(guarded_runs.c.id == row.id).values(ended_at=when))
        self.rows = self._rows()

    @rule(which=chosen, tells=st.booleans())
    def a_waiting_task_fails(self, which: int, tells: bool) -> None:
        """The task of one that waits is over while its DagRun goes on, which Airflow tells or does not."""
        waiters = [waiter for key in KEYS for waiter in self._line(key).waiters]
        if waiters:
            run = self.world.runs[(gone := waiters[which % len(waiters)].owner).run_id]
            run.task_states[gone.guard_id, gone.map_index], run.tells_tasks = "failed", tells

    @rule(key=keys, which=chosen)
    def a_waiter_gives_up(self, key: GuardKey, which: int) -> None:
        """One has waited long enough."""
        line = self._line(key)
        if line.waiters:
            waiter = line.waiters[which % len(line.waiters)]
            refused = self.guard.watch(key, waiter.owner, self.world.ask, waiter.life)
            note(f"{refused}")
            if refused is not None:
                self.guard.give_up(refused, "an example")
                self.barred[key, waiter.owner] = "refused"
            assert waiter.owner not in [one.owner for one in self._line(key).waiters]

    @rule(key=keys, run_id=run_ids)
    def a_sensor_looks(self, key: GuardKey, run_id: str) -> None:
        """A sensor sees who holds the key or for whom it is kept, and takes nothing."""
        looking, line = owner(run_id, "sensor"), self._line(key)
        refused = self.guard.watch(key, looking, self.world.ask, FIRST)
        if refused is None:
            assert self._active(key) is None, "a held key was called free"
        else:
            self._judge_refusal(looking, refused, line)

    @rule(dry_run=st.booleans())
    def sweep(self, dry_run: bool) -> None:
        """The lines are swept with the runs: no ticket outlives its owner."""
        super().sweep(dry_run)
        with suppress(WrongAirflow):
            list(self.guard.sweep_waiters(self.world.ask))
            gone = [one.owner for key in KEYS for one in self._line(key).waiters if self._is_gone(one)]
            assert gone == [], "a ticket outlived its owner"

    # What is true of a line when somebody has come forward

    def _judge_turn(self, owner: Owner, outcome: Outcome, line: Line, policy: Policy | None) -> None:
        match outcome:
            case Acquired(reentered=False):
                self._judge_overtaking(owner, line)
                self._judge_order(owner, line)
            case Refused():
                self._judge_refusal(owner, outcome, line)
            case Joined(run=run):
                assert run.ended_at is not None, "a run that has not ended was handed on"
            case Superseded(waiter=waiter):
                assert (waiter.ticket, policy) == (None, Policy.COALESCE), "a waiter in line was superseded"
        if isinstance(outcome, Acquired) and policy is not None:
            waiting = [waiter.owner for waiter in self._line(line.key).waiters]
            assert owner not in waiting, "the holder still stands in its own line"

    def _judge_taking_back(self, owner: Owner, line: Line) -> None:
        self._judge_overtaking(owner, line)

    def _judge_overtaking(self, owner: Owner, line: Line) -> None:
        """Whoever takes the key has let each one ahead that may come have its turn, or has made it needless."""
        needless = {one.id for one in self._line(line.key).waiters if one.superseded_by == str(owner)}
        ahead = [one for one in ahead_of(line, owner) if self._comes(one) and one.id not in needless]
        assert len(ahead) <= self._turns_passed(line), f"{ahead[0].owner} was overtaken by {owner}"

    def _judge_order(self, owner: Owner, line: Line) -> None:
        """Those whose turn has passed go behind all others, in their order; by one without a ticket nobody is moved."""
        before = [one.owner for one in line.waiters if one.ticket is not None]
        after = [one.owner for one in self._line(line.key).waiters if one.ticket is not None]
        if owner in before and owner not in after:
            place = before.index(owner)
            before = before[place + 1 :] + before[:place]
        assert after == [one for one in before if one in after], "the line is out of order"

    def _judge_refusal(self, owner: Owner, refused: Refused, line: Line) -> None:
        """A ticket refuses in its turn only, and only while its owner may come; and who waits has got its place."""
        if refused.waiter is not None:
            now = {one.id: one for one in self._line(line.key).waiters}
            assert now.get(refused.waiter.id) == refused.waiter, "it waits in no line"
        if not isinstance(blocker := refused.blocker, Waiter):
            return
        assert self._active(line.key) is None, "a ticket refused although the key is held"
        assert blocker.owner != owner, "P5: an owner was refused by its own ticket"
        assert not self._is_gone(blocker), "a ticket outlived its owner"
        ahead = [one.id for one in ahead_of(self._line(line.key), owner)]
        if blocker.id in ahead or blocker.policy is not Policy.COALESCE:  # else the new follow-up is in its place
            assert ahead.index(blocker.id) == self._turns_passed(line), "it was not its turn"

    def _turns_passed(self, line: Line) -> float:
        """How many turns had passed since the key was freed, before somebody came; none of a key that was held."""
        if line.newest is None:
            return inf
        return 0 if line.newest.ended_at is None else (line.now - line.newest.ended_at) // TURN

    def _comes(self, waiter: Waiter) -> bool:
        """Whether a waiter may certainly come forward; of one whose grace runs nothing is certain."""
        run = self.world.runs[waiter.owner.run_id]
        if not run.answers:
            return True
        return run.state is RunState.RUNNING and not self._is_gone(waiter) and not self._is_another(waiter)

    def _is_gone(self, waiter: Waiter) -> bool:
        """Whether a waiter will certainly never come forward, and Airflow says so."""
        run = self.world.runs[waiter.owner.run_id]
        if not run.answers or self._is_another(waiter):
            return False
        states = run.task_states if run.tells_tasks and run.state is RunState.RUNNING else {}
        over = states.get((waiter.owner.guard_id, waiter.owner.map_index)) in TASK_STATES_DONE
        return over or run.state in (RunState.SUCCESS, RunState.FAILED)

    def _is_another(self, waiter: Waiter) -> bool:
        """Whether the DagRun of that name is another one than the waiter's."""
        run, life = self.world.runs[waiter.owner.run_id], waiter.life
        return life.run_started_at != run.started_at and run.clear_number <= life.clear_number

    # In the end

    def teardown(self) -> None:
        """Nobody starves: Airflow answers, holders leave, and all that still come are served one after the other."""
        for run in self.world.runs.values():
            run.answers = run.tells_tasks = True
        sleep(1.2 * TIMINGS.startup_grace.total_seconds())
        for key in KEYS:
            self._serve(key)

    def _serve(self, key: GuardKey) -> None:
        self._free(key)
        assert self.guard.look(key) is None, "a key stays held although all its processes are gone"
        line = self._line(key)
        if line.newest is not None:  # its turns begin now
            self._let_end(self._rows()[line.newest.id], line.now)
        for waiter in self._coming(key):
            if waiter.life != self.world.life(waiter.owner):  # it was cleared since, and asks anew
                self._come_forward(key, waiter)
        for _ in range(len(self._coming(key)) + 1):
            self._free(key)
            if not (coming := self._coming(key)):
                break
            served = [self._come_forward(key, waiter) for waiter in reversed(coming)]
            took = [isinstance(outcome, Acquired) for outcome in served]
            assert took == [False] * (len(coming) - 1) + [True], "not the first of those who came was served"
        assert not self._coming(key), "who came each time was never served"

    def _coming(self, key: GuardKey) -> list[Waiter]:
        return [waiter for waiter in self._line(key).waiters if waiter.ticket is not None and self._comes(waiter)]

    def _come_forward(self, key: GuardKey, waiter: Waiter) -> Outcome | None:
        life = self.world.life(waiter.owner, self.tries.get(waiter.owner, 1))
        return self._acquire(key, waiter.owner, life, waiter.policy)

    def _free(self, key: GuardKey, *, tries: int = 50) -> None:
        """The holder, if any, releases the key after all its processes are gone; each try waits for its patience."""
        for process in self.world.processes:
            if process.key == key:
                self.world.give_up(process)
                process.gone = True
        for _ in range(tries):
            if (seen := self.guard.look(key)) is None:
                return
            with suppress(StillInside):
                self.guard.release(seen.run.id, seen.run.token, self.world.ask)
