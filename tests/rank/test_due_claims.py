"""A claim from one claimer's look to its end: taken once, settled once, offered again when its claimer is gone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import IntegrityError

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.rank import store
from airflow_rankguard.rank.claiming import DueConfigs, Tick
from airflow_rankguard.rank.due import DueConfig, Rule, Terms, decide
from airflow_rankguard.rank.errors import BadSchedule, UnknownConfig
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.tables import rank_schedules
from tests.databases import Database as LentDatabase
from tests.rank.conftest import DAILY, FIRST, NINE, AddDue, ids, scheduled
from tests.rank.wall_clock import DAY, HOUR, MINUTE

GRACE = Terms().grace
CLAIMERS, CONFIGS = 10, 60


def test_a_claim_whose_claimer_died_is_offered_again_after_the_grace(
    guarded: Database, due: DueConfigs, add_due: AddDue
) -> None:
    """With the same due time, so that its start is the same start; a claim just as old as the grace is not yet."""
    add_due("shop")
    assert ids(due.claim(Terms(), now=FIRST).claimed) == ["shop"]
    assert due.claim(Terms(), now=FIRST + GRACE).offered_again == 0
    again = due.claim(Terms(), now=FIRST + GRACE + MINUTE)
    assert (again.offered_again, [one.due.due_at for one in again.claimed]) == (1, [FIRST])
    assert scheduled(guarded, "shop").next_due_at == FIRST + DAY


def test_an_old_claim_is_due_in_the_same_tick_wherever_its_place_is(
    rank_engine: Engine, due: DueConfigs, add_due: AddDue
) -> None:
    """Also where it comes to stand before what was seen: it is due again since now, as the others are."""
    add_due("another")
    assert ids(due.claim(Terms(), now=FIRST).claimed) == ["another"]
    now = FIRST + GRACE + MINUTE
    add_due("shop")
    with rank_engine.begin() as connection:
        connection.execute(update(rank_schedules).where(rank_schedules.c.config_id == "shop").values(next_due_at=now))
    tick = due.claim(Terms(), now=now)
    assert (tick.offered_again, ids(tick.claimed)) == (1, ["shop", "another"])


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("admit", [None, lambda _: None], ids=["at once", "apart"])
def test_a_tick_that_cannot_offer_again_has_claimed_nothing(
    admit: Rule | None, guarded: Database, due: DueConfigs, rank_engine: Engine, add_due: AddDue
) -> None:
    """A claim that nobody was told of would wait for the grace."""
    add_due("dead")
    due.claim(Terms(), now=FIRST)
    add_due("shop")
    with rank_engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER no_more BEFORE UPDATE ON rank_schedules WHEN new.claimed_at IS NULL"
            " BEGIN SELECT RAISE(ABORT, 'no more'); END"
        )
    with pytest.raises(IntegrityError, match="no more"):
        due.claim(Terms(admit=admit), now=FIRST + HOUR)
    assert scheduled(guarded, "shop").next_due_at == FIRST


def test_a_started_claim_is_not_offered_again(guarded: Database, due: DueConfigs, add_due: AddDue) -> None:
    """It is settled once; a repeat, or one about another due time, changes nothing."""
    add_due("shop")
    due.claim(Terms(), now=FIRST)
    assert not due.started("shop", FIRST + DAY)
    assert due.started("shop", FIRST)
    assert not due.started("shop", FIRST)
    assert not due.give_back("shop", FIRST, "too late")
    assert due.claim(Terms(), now=FIRST + HOUR).claimed == []
    row = scheduled(guarded, "shop")
    assert (row.next_due_at, row.last_skip_reason) == (FIRST + DAY, None)


def test_a_config_whose_key_is_held_gets_its_due_time_back(guarded: Database, due: DueConfigs, add_due: AddDue) -> None:
    """Once, with the reason; the next tick claims it."""
    add_due("shop")
    due.claim(Terms(), now=FIRST)
    assert not due.give_back("shop", FIRST - DAY, "another claim's", now=FIRST)
    assert due.give_back("shop", FIRST, "held by a manual run", now=FIRST)
    assert not due.give_back("shop", FIRST, "again", now=FIRST)
    row = scheduled(guarded, "shop")
    assert (row.next_due_at, row.last_skip_reason) == (FIRST, "held by a manual run")
    (claimed,) = due.claim(Terms(), now=FIRST + MINUTE).claimed
    assert (claimed.due.due_at, scheduled(guarded, "shop").last_skip_reason) == (FIRST, None)


def test_what_comes_back_starves_nobody(due: DueConfigs, add_due: AddDue) -> None:
    """Held keys, dead claimers, errors: each stands behind what was due by then, however small the terms are."""
    for name in ("dead", "error", "held", "waits"):
        add_due(name)

    def rule(config: DueConfig) -> None:
        if config.config_id == "error":
            raise LookupError

    terms = Terms(limit=1, admit=rule)
    assert ids(due.claim(terms, now=FIRST).claimed) == ["dead"]
    second = due.claim(terms, now=FIRST + MINUTE)
    assert (ids(second.failed), ids(second.claimed)) == (["error"], ["held"])
    due.give_back("held", FIRST, "held", now=FIRST + 2 * MINUTE)
    later = FIRST + GRACE + MINUTE
    waiting = due.claim(terms, now=later)
    assert (ids(waiting.failed), ids(waiting.claimed)) == ([], ["waits"])
    third = due.claim(terms, now=later)
    assert (ids(third.failed), ids(third.claimed), third.oldest) == (["error"], ["held"], GRACE + MINUTE)
    assert ids(due.claim(terms, now=later).claimed) == ["dead"]


def test_the_oldest_need_not_stand_first(due: DueConfigs, add_due: AddDue) -> None:
    """Whoever was given back stands behind others, and has been due for longer than they have all the same."""
    add_due("back", schedule=Schedule(every="daily", anchor=NINE - HOUR))
    add_due("front")
    assert ids(due.claim(Terms(limit=1), now=FIRST).claimed) == ["back"]
    due.give_back("back", FIRST - HOUR, "held", now=FIRST + 2 * HOUR)
    tick = due.claim(Terms(), now=FIRST + 3 * HOUR)
    assert (ids(tick.claimed), tick.oldest) == (["front", "back"], 4 * HOUR)


def test_a_late_answer_settles_the_second_claim_of_the_same_due_time(due: DueConfigs, add_due: AddDue) -> None:
    """Both would have started the same run, so either may say that it is there."""
    add_due("shop")
    due.claim(Terms(), now=FIRST)
    due.claim(Terms(), now=FIRST + HOUR)
    assert due.started("shop", FIRST)
    assert due.claim(Terms(), now=FIRST + 2 * HOUR).claimed == []


def test_a_config_that_is_being_started_is_not_claimed_for_its_next_time(due: DueConfigs, add_due: AddDue) -> None:
    """Also when that comes within the grace; afterwards it is made up for."""
    add_due("shop", schedule=Schedule(every="* * * * *"))
    due.claim(Terms(), now=FIRST)
    assert due.claim(Terms(), now=FIRST + 3 * MINUTE) == Tick()
    due.started("shop", NINE + MINUTE)
    (claimed,) = due.claim(Terms(), now=FIRST + 4 * MINUTE).claimed
    assert (claimed.due.due_at, claimed.next_due_at) == (FIRST + MINUTE, FIRST + 5 * MINUTE)


def test_many_claimers_never_take_the_same_config(rank_engine: Engine, add_due: AddDue) -> None:
    """Each config has one claimer, and between them they take all, whoever looked at the same page first."""
    for number in range(CONFIGS):
        add_due(f"{number:03}")

    def take(_: int) -> list[str]:
        claimer, taken = DueConfigs(Database(rank_engine)), []
        while batch := ids(claimer.claim(Terms(limit=4), now=FIRST).claimed):
            taken += batch
        return taken

    with ThreadPoolExecutor(CLAIMERS) as pool:
        taken = [config for claimer in pool.map(take, range(CLAIMERS)) for config in claimer]
    assert sorted(taken) == [f"{number:03}" for number in range(CONFIGS)]


def _page(guarded: Database) -> list[DueConfig]:
    return guarded.look(store.list_due, 10, FIRST).due


@pytest.mark.parametrize(
    "change",
    [
        {"next_due_at": FIRST - HOUR, "returned_at": FIRST},
        {"claimed_at": FIRST, "claimed_due_at": FIRST},
        {"returned_at": FIRST + MINUTE},
    ],
    ids=["due then", "claimed", "given back"],
)
def test_what_changed_since_it_was_seen_is_not_claimed(
    change: dict[str, object], guarded: Database, rank_engine: Engine, add_due: AddDue
) -> None:
    """The claim compares the due time and the place in line that it saw; what others claimed or moved is theirs."""
    for name in ("mine", "moved"):
        add_due(name)
    decisions = [decide(seen, Terms()) for seen in _page(guarded)]
    with rank_engine.begin() as connection:
        connection.execute(update(rank_schedules).where(rank_schedules.c.config_id == "moved").values(change))
    assert guarded.statement(store.carry_out, decisions, now=FIRST) == {"mine"}


@pytest.fixture
def impatient(database: LentDatabase) -> Iterator[DueConfigs]:
    """A claimer on PostgreSQL for which waiting for a lock is an error at once."""
    url = database.task_url.update_query_dict({"options": "-c lock_timeout=100ms"})
    made = create_guard_engine(url, schema=database.schema)
    yield DueConfigs(Database(made))
    made.dispose()


@pytest.mark.backends("postgres")
@pytest.mark.parametrize(("admit", "lost"), [(None, 0), (lambda _: None, 1)], ids=["not seen", "seen"])
def test_a_locked_config_is_let_alone(
    admit: Rule | None, lost: int, impatient: DueConfigs, rank_engine: Engine, add_due: AddDue
) -> None:
    """Nobody waits for whoever works on a schedule, nor is kept from the others; it stays due.

    Who asks nobody about a config looks at what is free, so that claimers of one moment get different pages.
    """
    for name in ("free", "locked"):
        add_due(name)
    with rank_engine.begin() as connection:
        connection.execute(update(rank_schedules).where(rank_schedules.c.config_id == "locked").values(max_cost=1))
        tick = impatient.claim(Terms(deadline=timedelta(seconds=5), admit=admit), now=FIRST)
        assert (ids(tick.claimed), tick.lost, tick.full) == (["free"], lost, None)
    assert ids(impatient.claim(Terms(), now=FIRST).claimed) == ["locked"]


@pytest.mark.backends("postgres")
def test_a_locked_claim_is_offered_again_later(impatient: DueConfigs, rank_engine: Engine, add_due: AddDue) -> None:
    """Whoever settles a claim at this moment is not waited for, and not overruled."""
    for name in ("dead", "settling"):
        add_due(name)
    impatient.claim(Terms(), now=FIRST)
    with rank_engine.begin() as connection:
        assert store.note_started(connection, "settling", FIRST)
        tick = impatient.claim(Terms(), now=FIRST + HOUR)
        assert (tick.offered_again, ids(tick.claimed)) == (1, ["dead"])
    assert impatient.claim(Terms(), now=FIRST + HOUR).offered_again == 0


def test_a_tick_that_lost_its_page_to_others_reads_on(guarded: Database, add_due: AddDue) -> None:
    """What others took uses up nothing of its terms, also when they seemed to be used up."""
    for number in range(7):
        add_due(f"{number}", keywords=number not in (1, 2))
    quicker = DueConfigs(guarded)

    def rule(config: DueConfig) -> None:
        if config.config_id == "3":
            assert ids(quicker.claim(Terms(limit=1), now=FIRST).claimed) == ["3"]

    tick = DueConfigs(guarded).claim(Terms(limit=3, admit=rule), now=FIRST)
    assert (ids(tick.skipped), ids(tick.claimed)) == (["1", "2"], ["0", "4", "5"])
    assert (tick.lost, tick.full) == (1, "limit")


def test_a_schedule_can_be_changed_and_dropped(guarded: Database, due: DueConfigs, add_due: AddDue) -> None:
    """A new one counts from now; without one a config is never due; a broken or unknown one changes nothing."""
    add_due("shop")
    later = Schedule(every="weekly", time_zone="Asia/Tokyo", anchor=NINE + HOUR)
    due_at = guarded.transaction(store.set_schedule, "shop", later, max_cost=Decimal("1.5"), now=FIRST + DAY)
    row = scheduled(guarded, "shop")
    assert (row.schedule, row.max_cost, row.next_due_at) == (later, Decimal("1.5"), due_at)
    assert due_at == NINE + HOUR + 7 * DAY
    with pytest.raises(BadSchedule):
        guarded.transaction(store.set_schedule, "shop", Schedule(every="never"))
    assert scheduled(guarded, "shop") == row
    for sentence in (lambda c: store.set_schedule(c, "nobody", DAILY), lambda c: store.drop_schedule(c, "nobody")):
        with pytest.raises(UnknownConfig, match="nobody"):
            guarded.transaction(sentence)
    guarded.transaction(store.drop_schedule, "shop")
    assert guarded.look(store.list_schedules) == {}
    assert due.claim(Terms(), now=FIRST + 365 * DAY).claimed == []


def test_a_new_schedule_takes_no_old_place_in_line(guarded: Database, due: DueConfigs, add_due: AddDue) -> None:
    """What was given back under the old one is forgotten: the config is due when it is due."""
    add_due("shop")
    due.claim(Terms(), now=FIRST)
    due.give_back("shop", FIRST, "held", now=FIRST + 3 * DAY)
    guarded.transaction(store.set_schedule, "shop", DAILY, now=FIRST)
    assert ids(due.claim(Terms(), now=FIRST + DAY).claimed) == ["shop"]


def test_configs_from_before_there_were_schedules_are_started_by_hand(
    guarded: Database, owner_engine: Engine, add_due: AddDue
) -> None:
    """The upgrade keeps them and their keywords, and each may be given a schedule; the way back keeps them as well."""
    add_due("shop")
    schema.downgrade(owner_engine, "0003")
    assert schema.upgrade(owner_engine) == []
    assert guarded.look(store.count_keywords) == {"shop": 1}
    assert guarded.look(store.list_schedules) == {}
    guarded.transaction(store.set_schedule, "shop", DAILY, now=NINE)
    assert ids(DueConfigs(guarded).claim(Terms(), now=FIRST).claimed) == ["shop"]


def test_a_half_claim_is_refused(rank_engine: Engine, add_due: AddDue) -> None:
    """Whoever edits a row by hand cannot leave a claim without its due time, nor a ceiling below nothing."""
    add_due("shop")
    for values in ({"claimed_at": FIRST}, {"claimed_due_at": FIRST}, {"max_cost": -1}):
        with pytest.raises(IntegrityError), rank_engine.begin() as connection:
            connection.execute(update(rank_schedules).values(values))


@pytest.mark.parametrize(
    "terms", [{"limit": 0}, {"unit_budget": 0}, {"deadline": timedelta(0)}, {"grace": timedelta(0)}]
)
def test_terms_that_let_nothing_through_are_refused(terms: dict[str, object]) -> None:
    """By the name of the one that does."""
    with pytest.raises(ValueError, match=next(iter(terms))):
        Terms(**terms)  # type: ignore[arg-type] # each has its own type
