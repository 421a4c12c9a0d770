"""Each sentence of the store by itself: it changes the row it names, as it was seen, and nothing beside it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError

from airflow_rankguard.guard.database import Database, RowLocked
from airflow_rankguard.guard.errors import GuardLost, StillInside
from airflow_rankguard.guard.outcomes import Ending
from airflow_rankguard.guard.store import claims, ends, events, looks, presences, prunes
from airflow_rankguard.guard.tables import guard_events, guard_presence, guarded_runs
from airflow_rankguard.guard.values import Cause, Claim, Entry, Life, Member, Sighting, Status, Timings
from tests.guard.stage import FENCE, FIRST, Stage, key, owner

Sentence = Callable[[Connection, Sighting, Timings], object]

BORN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ENDING = Ending(status=Status.FAILED, cause=Cause.RELEASED, reason="an example")
SECOND = Life(try_number=2)
OTHERS = ("deployment", "dag_id", "run_id", "guard_id", "map_index")
OTHER_KEYS = ("kind", "resource", "tenant")


def release(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """The owner's release with nobody inside."""
    return ends.end_if_empty(connection, seen.run.id, seen.run.token, ENDING, timings)


def end(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """Those inside were judged gone."""
    return ends.end(connection, seen, ENDING, timings)


def close(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """Nobody is let in any more."""
    return ends.close_doors(connection, seen.run.id, seen.run.token, ENDING, timings)


def reopen(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """The owner's next try."""
    return claims.reopen(connection, seen, seen.run.owner, SECOND, timings)


def stamp(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """The end of the work is seen."""
    ends.stamp_end(connection, seen.run, timings, seen=True)
    return None


def enter(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """One more member comes to the fence."""
    return presences.enter(connection, entry(key=seen.run.key, owner=seen.run.owner), timings)


def leave(connection: Connection, seen: Sighting, timings: Timings) -> object:
    """Somebody goes out."""
    return presences.leave(connection, seen.presences[0], timings)


def claim(connection: Connection, _: Sighting, timings: Timings) -> object:
    """Somebody wants another key."""
    wanted = Claim(id=uuid4(), key=key("43"), owner=owner("r2"), life=FIRST)
    return claims.claim(connection, wanted, timings)


def claim_unless_waited_for(connection: Connection, _: Sighting, timings: Timings) -> object:
    """The same, with nobody in line."""
    wanted = Claim(id=uuid4(), key=key("43"), owner=owner("r2"), life=FIRST)
    return claims.claim_unless_waited_for(connection, wanted, timings)


def entry(task: str = "publish", **changed: Any) -> Entry:
    """The wish of a member of r1 to go inside."""
    plain = Entry(id=uuid4(), key=key(), owner=owner(), life=FENCE, member=Member(task_id=task))
    return replace(plain, **changed)


def another(part: str) -> dict[str, Any]:
    """The part of somebody or something else."""
    return {part: 7 if part == "map_index" else "another"}


@pytest.fixture
def sentences(stage: Stage) -> Database:
    """Speaks the sentences as the guard does."""
    return Database(stage.engine, stage.guard.timings)


def look(stage: Stage) -> Sighting:
    """Who holds the key."""
    seen = stage.guard.look(key())
    assert seen
    return seen


@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        *[(sentence, part) for sentence in (end, reopen, stamp) for part in ("id", "token", "entries")],
        *[(sentence, part) for sentence in (release, close) for part in ("id", "token")],
    ],
)
def test_only_the_row_that_was_seen_is_changed(
    stage: Stage, sentences: Database, sentence: Sentence, part: str
) -> None:
    """Another id, token or number of entries than the row's: it is somebody else's, or it has moved."""
    run = stage.held()
    moved: dict[str, Any] = {"id": UUID(int=1), "token": run.token + 1, "entries": run.entries + 1}
    seen = replace(look(stage), run=replace(run, **{part: moved[part]}))
    assert sentences.transaction(sentence, seen, sentences.timings) is None
    assert stage.row(run) == run


@pytest.mark.parametrize("sentence", [release, end, close, reopen, stamp, enter])
def test_an_ended_row_stays_as_it_ended(stage: Stage, sentences: Database, sentence: Sentence) -> None:
    """It ended after it was seen: nothing of it is written over, and nobody gets in."""
    run = stage.held()
    seen = look(stage)
    stage.release(run)
    ended = stage.row(run)
    assert sentences.transaction(sentence, seen, sentences.timings) is None
    assert stage.row(run) == ended


def test_the_first_stamp_of_an_end_stays(stage: Stage, sentences: Database) -> None:
    """Two that have seen the end at once: the drain counts from the first."""
    run = stage.held()
    seen = look(stage)
    sentences.transaction(stamp, seen, sentences.timings)
    stamped = stage.row(run)
    sleep(0.01)
    sentences.transaction(stamp, seen, sentences.timings)
    assert stamped.ended_seen_at
    assert stage.row(run) == stamped


def closed_by_force(stage: Stage) -> Sighting:
    """A run whose doors a person has closed, and that has become empty since."""
    run = stage.held()
    work = stage.enter()
    with pytest.raises(StillInside):
        stage.force(run)
    stage.guard.leave(work.presence)
    return look(stage)


def test_a_run_closed_by_force_gets_no_new_life(stage: Stage, sentences: Database) -> None:
    """Its owner's next try was on its way when a person closed the doors."""
    seen = closed_by_force(stage)
    assert sentences.transaction(reopen, seen, sentences.timings) is None
    assert stage.row(seen.run) == seen.run


@pytest.mark.parametrize("sentence", [release, end, close])
def test_what_a_person_has_decided_is_kept_whole(stage: Stage, sentences: Database, sentence: Sentence) -> None:
    """Closed by force, then ended or closed by another: status, cause and reason stay the person's."""
    run = closed_by_force(stage).run
    said = replace(ENDING, status=Status.COMPLETED)
    match sentence.__name__:
        case "release":
            sentences.transaction(ends.end_if_empty, run.id, run.token, said, sentences.timings)
        case "end":
            sentences.transaction(ends.end, look(stage), said, sentences.timings)
        case _:
            sentences.transaction(ends.close_doors, run.id, run.token, said, sentences.timings)
    row = stage.row(run)
    assert (row.cause, row.reason, row.ending_status) == (run.cause, run.reason, Status.FAILED)
    assert row.status == (Status.FAILED if row.ended_at else Status.RUNNING)


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("sentence", [claim, claim_unless_waited_for, release, end, close, reopen, stamp, enter, leave])
def test_another_transaction_is_waited_for_a_bounded_time(
    stage: Stage, sentences: Database, owner_engine: Engine, sentence: Sentence
) -> None:
    """A process that stands still with a row in its hands holds nobody up for longer than the lock time-out."""
    stage.held()
    if sentence is not release:
        stage.enter()
    seen = look(stage)
    with owner_engine.begin() as standing:
        for table in (guarded_runs, guard_presence):
            standing.execute(select(table).with_for_update())
        # An unbounded sentence goes on after three seconds, and fails the test.
        claim(standing, seen, replace(sentences.timings, write_timeout=timedelta(seconds=3)))
        hurried = replace(sentences.timings, lock_timeout=timedelta(milliseconds=50))
        with pytest.raises(RowLocked):
            sentences.transaction(sentence, seen, hurried)


@pytest.mark.backends("postgres")
@pytest.mark.parametrize("sentence", [end, reopen])
def test_a_session_that_stops_while_it_gives_others_up_is_ended(
    stage: Stage, engine: Engine, sentence: Sentence
) -> None:
    """Its transaction has a presence in its hands: after the write time-out the server undoes it."""
    run = stage.held()
    stage.enter()
    seen = look(stage)
    with engine.connect() as connection, connection.begin() as transaction:
        sentence(connection, seen, replace(stage.guard.timings, write_timeout=timedelta(milliseconds=100)))
        sleep(0.5)
        with pytest.raises(DBAPIError):
            transaction.commit()
        connection.invalidate()
    assert stage.inside() == ["work try 1"]
    assert stage.row(run).active


@pytest.mark.parametrize("sentence", [end, reopen])
def test_those_given_up_are_forgotten_and_nobody_else(stage: Stage, sentences: Database, sentence: Sentence) -> None:
    """They no longer count; whoever is inside of another run does."""
    run = stage.held()
    stage.enter()
    sentences.transaction(claim, look(stage), sentences.timings)
    elsewhere = sentences.statement(presences.enter, entry(key=key("43"), owner=owner("r2")), sentences.timings)
    assert elsewhere
    sentences.transaction(sentence, look(stage), sentences.timings)
    seen = stage.guard.look_run(run.id)
    assert seen
    assert seen.presences == ()
    stage.guard.assert_held(key("43"), elsewhere.presence)


@pytest.mark.parametrize(
    "moved",
    [
        {"token": guarded_runs.c.token + 1},
        {"status": Status.FAILED, "cause": Cause.FORCED, "ended_at": BORN},
    ],
    ids=["token", "ended"],
)
def test_a_presence_counts_only_while_its_life_holds(stage: Stage, moved: dict[str, Any]) -> None:
    """A presence that somebody has left behind is not enough: the row decides."""
    stage.held()
    work = stage.enter()
    with stage.engine.begin() as connection:
        connection.execute(guarded_runs.update().values(**moved))
    with pytest.raises(GuardLost):
        stage.guard.assert_held(key(), work.presence)
    with stage.engine.begin() as connection, pytest.raises(GuardLost):
        stage.guard.protect(connection, key(), work.presence)


@pytest.mark.parametrize("part", [*OTHERS, *OTHER_KEYS])
def test_the_door_opens_for_its_owner_and_key_alone(stage: Stage, sentences: Database, part: str) -> None:
    """Whoever differs in one part stays outside, and so does its own member with another key."""
    run = stage.held()
    stranger = (
        entry(owner=replace(owner(), **another(part))) if part in OTHERS else entry(key=replace(key(), **another(part)))
    )
    assert sentences.statement(presences.enter, stranger, sentences.timings) is None
    assert stage.row(run) == run
    assert sentences.statement(presences.enter, entry(), sentences.timings)


@pytest.mark.parametrize(
    ("recorded", "comes", "let_in"),
    [
        (Life(run_started_at=BORN, clear_number=1), Life(run_started_at=BORN, clear_number=1), True),
        (Life(run_started_at=BORN, clear_number=1), Life(run_started_at=BORN, clear_number=0), True),
        (Life(run_started_at=BORN, clear_number=1), Life(run_started_at=BORN + DAY, clear_number=0), True),
        (Life(run_started_at=BORN, clear_number=1), Life(run_started_at=BORN - DAY, clear_number=2), False),
        (Life(clear_number=1), Life(run_started_at=BORN, clear_number=1), True),
        (Life(clear_number=1), Life(run_started_at=BORN, clear_number=0), False),
        (Life(run_started_at=BORN, clear_number=1), Life(clear_number=1), True),
        (Life(run_started_at=BORN, clear_number=1), Life(clear_number=0), False),
    ],
)
def test_the_door_is_shut_to_older_lives(
    stage: Stage, sentences: Database, recorded: Life, comes: Life, let_in: bool
) -> None:
    """The start decides; where one is not known, the clear number does."""
    stage.held("r1", replace(recorded, try_number=1))
    entered = sentences.statement(presences.enter, entry(life=comes), sentences.timings)
    assert (entered is not None) is let_in


@pytest.mark.parametrize(
    ("comes", "recorded"),
    [
        (Life(run_started_at=BORN, clear_number=1), 2),
        (Life(run_started_at=BORN, clear_number=3), 3),
        (Life(run_started_at=BORN + DAY, clear_number=0), 0),
    ],
)
def test_entering_records_the_later_clear(stage: Stage, sentences: Database, comes: Life, recorded: int) -> None:
    """Within one start the larger number stays; a new start counts its clears from its own."""
    stage.held("r1", Life(run_started_at=BORN, clear_number=2, try_number=1))
    entered = sentences.statement(presences.enter, entry(life=comes), sentences.timings)
    assert entered
    assert (entered.run.life.run_started_at, entered.run.life.clear_number) == (comes.run_started_at, recorded)


def test_only_the_same_task_of_the_same_run_is_an_earlier_process(stage: Stage, sentences: Database) -> None:
    """Other tasks, other map indexes, and a task of the same name in another run stand in nobody's way."""
    stage.held()
    sentences.transaction(claim, look(stage), sentences.timings)
    first = entry("work")
    comers = [
        first,
        entry("publish"),
        entry(member=Member(task_id="work", map_index=0)),
        entry(member=Member(task_id="work", map_index=1)),
        entry("work", key=key("43"), owner=owner("r2")),
        first,
    ]
    assert all(sentences.statement(presences.enter, comer, sentences.timings) for comer in comers)
    assert sentences.statement(presences.enter, entry("work"), sentences.timings) is None
    assert sentences.statement(presences.enter, entry("work", replaced=first.id), sentences.timings)


@pytest.mark.parametrize("part", OTHERS)
def test_everybody_elses_refusal_is_noted(stage: Stage, sentences: Database, part: str) -> None:
    """Once, for the key's holder: not for what held it before, nor for other keys' holders."""
    stage.release(stage.held())
    stage.held("r9", resource="43")
    holder = stage.held()
    refused = replace(owner(), **another(part))
    sentences.statement(looks.active_noting_refusal, key(), refused)
    assert [(event.event, event.owner) for event in stage.guard.events(holder.id)] == [("refused", refused)]
    with stage.engine.begin() as connection:
        assert connection.scalar(text(f"SELECT count(*) FROM {events_table(connection)}")) == 1


def events_table(connection: Connection) -> str:
    """The name of the table of events, with its schema."""
    schema = connection.schema_for_object(guard_events)
    return f"{schema}.guard_events" if schema else "guard_events"


def test_nobody_is_refused_by_itself(stage: Stage, sentences: Database) -> None:
    """Neither by its own row nor by the claim that the start gate has made for it."""
    claimed = stage.claimed("r1")
    sentences.statement(looks.active_noting_refusal, key(), owner("r1"))
    held = stage.held("r1")
    sentences.statement(looks.active_noting_refusal, key(), owner("r1"))
    assert held.id == claimed.id
    assert stage.happened(held) == [("re-entered", "r1")]


@pytest.mark.parametrize("part", [*OTHERS, *OTHER_KEYS])
def test_only_its_own_refusal_of_this_key_is_held_against_a_run(stage: Stage, sentences: Database, part: str) -> None:
    """Nobody is kept from a free key by what others, or it elsewhere, were told."""
    stage.held("r9")
    stage.refused("r1")
    assert sentences.look(looks.past, key(), owner()).refused_at
    who = replace(owner(), **another(part)) if part in OTHERS else owner()
    what = replace(key(), **another(part)) if part in OTHER_KEYS else key()
    assert sentences.look(looks.past, what, who).refused_at is None


def test_only_the_own_last_refusal_is_taken_back(stage: Stage, sentences: Database) -> None:
    """What others were told, and what it was told before, stays."""
    holder = stage.held("r9")
    for run in ("r1", "r1", "r2"):
        stage.refused(run)
    sentences.statement(events.take_back_refusal, key(), owner("r1"))
    assert stage.happened(holder) == [("refused", "r1"), ("refused", "r2")]


def test_a_loss_is_no_refusal(stage: Stage, sentences: Database) -> None:
    """A member that came while another run held the key may come back when it is free."""
    holder = stage.held("r9")
    with pytest.raises(GuardLost):
        stage.enter("r1")
    assert sentences.look(looks.past, key(), owner()).refused_at is None
    stage.release(holder)
    assert stage.enter("r1").run.owner == owner()


def test_the_newest_run_speaks_for_its_owner(stage: Stage, sentences: Database) -> None:
    """How it ended last decides whether it may come back."""
    runs = [stage.held("r1")]
    stage.release(runs[0])
    runs.append(stage.held("r1"))
    stage.force(runs[1])
    assert sentences.look(looks.past, key(), owner()).last == stage.row(runs[1])


def test_recent_runs_are_the_deployments_own(
    stage: Stage, make_stage: Callable[..., Stage], sentences: Database
) -> None:
    """Another deployment's runs do not make an Airflow the right one."""
    make_stage("another").held("r9", resource="43")
    stage.held("r1")
    assert [run.owner.run_id for run in sentences.look(looks.recent, "test", 10)] == ["r1"]


@pytest.mark.parametrize("part", OTHER_KEYS)
def test_a_key_is_all_of_its_parts(stage: Stage, part: str) -> None:
    """Whoever looks for a key of another kind, resource or tenant finds nobody."""
    stage.held()
    assert stage.guard.look(replace(key(), **another(part))) is None


def test_a_run_that_somebody_is_inside_of_is_not_forgotten(stage: Stage, sentences: Database) -> None:
    """History goes around a presence that should not be there."""
    run = stage.held()
    work = stage.enter()
    stage.guard.leave(work.presence)
    stage.release(run)
    stage.release(stage.held())
    with stage.engine.begin() as connection:
        values = {"guarded_run_id": run.id, "task_id": "work", "map_index": -1, "id": uuid4()}
        connection.execute(guard_presence.insert().values(**values, try_number=1, token=run.token, entered_at=BORN))
    later = datetime(2100, 1, 1, tzinfo=UTC)
    assert sentences.statement(prunes.prune_runs, later, 10) == 0
