"""The rank check's SQL, on both databases."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, Engine, func, select, update
from sqlalchemy.exc import IntegrityError

from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.errors import ConfigExists, RunOfAnotherConfig, UnknownConfig
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.recorded import RecordedSource
from airflow_rankguard.rank.report import build_report
from airflow_rankguard.rank.store import Imported
from airflow_rankguard.rank.tables import rank_runs, rank_snapshots
from airflow_rankguard.rank.values import Device, Position, Progress, RankConfig, RankRun, Snapshot
from tests.rank.conftest import RECORDINGS

Stored = Callable[..., tuple[Keyword, ...]]


def texts(keywords: Sequence[Keyword]) -> list[str]:
    """Only the words."""
    return [keyword.text for keyword in keywords]


def snapshot(keyword: Keyword, organic: int | None = 1, *, reason: str | None = None) -> Snapshot:
    """A measurement of a keyword on the desktop."""
    position = Position(organic=organic, absolute=organic, url="https://coolblue.nl/", featured=True)
    return Snapshot(keyword_id=keyword.id, device=Device.DESKTOP, depth=20, position=position, reason=reason)


def finished(connection: Connection, config: RankConfig, *batch: Snapshot, token: int = 1) -> UUID:
    """A finished run that measured a batch."""
    run_id = uuid4()
    store.begin_run(connection, run_id, config.id, token)
    store.write_snapshots(connection, run_id, config.id, batch, Progress(total=len(batch), checked=len(batch)))
    store.finish_run(connection, run_id)
    return run_id


def test_a_config_comes_back_as_it_went_in(connection: Connection, shop: RankConfig) -> None:
    """Every field survives, and the list is in order of tenant and id."""
    other = replace(shop, id="a", tenant="t", devices=(Device.MOBILE,), enabled=False)
    for config in (other, shop):
        store.add_config(connection, config)
    assert store.get_config(connection, "a") == other
    assert store.list_configs(connection) == (shop, other)


def test_an_id_is_taken_once(connection: Connection, shop: RankConfig) -> None:
    """The second config of an id changes nothing, and the transaction goes on."""
    store.add_config(connection, shop)
    with pytest.raises(ConfigExists, match="'shop-nl' exists already"):
        store.add_config(connection, replace(shop, domain="other.nl"))
    assert store.get_config(connection, shop.id) == shop


def test_an_unknown_config_is_named(connection: Connection) -> None:
    """By the look-up and by the import alike."""
    with pytest.raises(UnknownConfig, match="'nobody'"):
        store.get_config(connection, "nobody")
    with pytest.raises(UnknownConfig, match="'nobody'"):
        store.import_keywords(connection, "nobody", ["laptop"])


def test_an_import_adds_behind(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """Known keywords keep their number and place; new ones follow."""
    before = stored("laptop", "tv")
    assert store.import_keywords(connection, shop.id, ["radio", "tv"]) == Imported(added=1, known=1, dropped=0)
    after = store.list_keywords(connection, shop.id)
    assert texts(after) == ["laptop", "tv", "radio"]
    assert after[:2] == before
    assert store.count_keywords(connection) == {shop.id: 3}


def test_a_replacing_import_drops_the_others(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """The file's order counts, and a keyword that comes back later is the same one."""
    laptop, tv = stored("laptop", "tv")
    imported = store.import_keywords(connection, shop.id, ["radio", "tv"], replace=True)
    assert imported == Imported(added=1, known=1, dropped=1)
    assert texts(store.list_keywords(connection, shop.id)) == ["radio", "tv"]
    store.import_keywords(connection, shop.id, ["tv", "radio"], replace=True)
    assert texts(store.list_keywords(connection, shop.id)) == ["tv", "radio"]
    assert store.import_keywords(connection, shop.id, ["laptop"]) == Imported(added=1, known=0, dropped=0)
    assert laptop in store.list_keywords(connection, shop.id)
    assert tv in store.list_keywords(connection, shop.id)


def test_keywords_belong_to_one_config(connection: Connection, stored: Stored) -> None:
    """The same word in two configs is two keywords, and replacing one's leaves the other's."""
    (mine,) = stored("tv", config_id="mine")
    (theirs,) = stored("tv", config_id="theirs")
    store.import_keywords(connection, "mine", ["radio"], replace=True)
    assert mine.id != theirs.id
    assert store.list_keywords(connection, "theirs") == (theirs,)


def test_a_run_begins_once(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """A later life finds the progress and the start of the first, and leaves its token."""
    (laptop,) = stored("laptop")
    run_id = uuid4()
    first = store.begin_run(connection, run_id, shop.id, 1_000_000)
    assert first.progress == Progress()
    progress = Progress(total=2, checked=1, cost=Decimal("0.000600"))
    store.write_snapshots(connection, run_id, shop.id, [snapshot(laptop)], progress)
    again = store.begin_run(connection, run_id, shop.id, 1_000_001)
    assert (again.progress, again.token, again.started_at) == (progress, 1_000_001, first.started_at)
    assert first.started_at.utcoffset() == timedelta(0)


def test_a_run_checks_one_config(connection: Connection, stored: Stored) -> None:
    """Two configs in one guarded run would mix their progress."""
    stored("tv", config_id="mine")
    stored("tv", config_id="theirs")
    run_id = uuid4()
    store.begin_run(connection, run_id, "mine", 1)
    with pytest.raises(RunOfAnotherConfig, match="'theirs'"):
        store.begin_run(connection, run_id, "theirs", 2)
    run = store.get_run(connection, run_id)
    assert run is not None
    assert (run.config_id, run.token) == ("mine", 1)


def test_a_repeated_batch_changes_nothing(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """A pair is measured once per run: the first measurement stays, new ones of the batch are added."""
    laptop, tv = stored("laptop", "tv")
    run_id = uuid4()
    store.begin_run(connection, run_id, shop.id, 1)
    progress = Progress(total=2, checked=1)
    store.write_snapshots(connection, run_id, shop.id, [snapshot(laptop, 3)], progress)
    before = connection.execute(select(rank_snapshots)).all()
    store.write_snapshots(connection, run_id, shop.id, [snapshot(laptop, 9)], progress)
    assert connection.execute(select(rank_snapshots)).all() == before
    bad = snapshot(tv, None, reason="not recorded")
    store.write_snapshots(connection, run_id, shop.id, [snapshot(laptop, 9), bad], Progress(total=2))
    assert store.list_done(connection, run_id) == {
        (laptop.id, Device.DESKTOP): None,
        (tv.id, Device.DESKTOP): "not recorded",
    }


def test_a_run_finishes_once(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """A repeated finish does not move the time."""
    stored("tv")
    run_id = finished(connection, shop)
    first = store.get_run(connection, run_id)
    store.finish_run(connection, run_id)
    assert first is not None
    assert first.finished_at is not None
    assert store.get_run(connection, run_id) == first
    assert store.get_run(connection, uuid4()) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("device", "fridge"),
        ("position", 0),
        ("position_absolute", None),
        ("reason", "lost"),
        ("keyword_id", None),
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(
    connection: Connection, stored: Stored, shop: RankConfig, column: str, value: object
) -> None:
    """The database itself refuses half a place, an unknown device, or a place that was not checked."""
    (laptop,) = stored("laptop")
    finished(connection, shop, snapshot(laptop))
    with pytest.raises(IntegrityError), connection.begin_nested():
        connection.execute(update(rank_snapshots).values({column: value}))


def test_progress_stays_within_its_total(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """A run cannot have measured more than there is."""
    stored("tv")
    run_id = finished(connection, shop)
    too_much = Progress(total=1, checked=1, failed=1)
    with pytest.raises(IntegrityError), connection.begin_nested():
        store.write_snapshots(connection, run_id, shop.id, [], too_much)


def test_a_cost_is_exact(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """Millionths of a dollar survive on a database that has no decimals."""
    stored("tv")
    run_id = finished(connection, shop)
    for cost in ("0.000001", "0.1", "12345678.123456", "99999999.999999"):
        store.write_snapshots(connection, run_id, shop.id, [], Progress(cost=Decimal(cost)))
        run = store.get_run(connection, run_id)
        assert run is not None
        assert run.progress.cost == Decimal(cost)


def test_costs_add_up(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """A sum that the database makes is as exact as its parts."""
    stored("tv")
    for cost in ("0.1", "0.2"):
        run_id = finished(connection, shop)
        store.write_snapshots(connection, run_id, shop.id, [], Progress(cost=Decimal(cost)))
    assert connection.scalar(select(func.sum(rank_runs.c.cost))) == Decimal("0.3")


def test_a_run_is_the_sum_of_its_parts(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """Tasks that check some of its keywords each: it is finished when all that have begun are."""
    laptop, tv = stored("laptop", "tv")
    run_id = uuid4()

    def write(part: str, keyword: Keyword, progress: Progress) -> RankRun:
        store.write_snapshots(connection, run_id, shop.id, [snapshot(keyword)], progress, part)
        if not progress.open:
            store.finish_run(connection, run_id, part)
        run = store.get_run(connection, run_id)
        assert run
        return run

    store.begin_run(connection, uuid4(), shop.id, 1, "of another run")
    store.begin_run(connection, run_id, shop.id, 1, "a")
    assert store.begin_run(connection, run_id, shop.id, 1, "b").finished_at is None
    first = write("a", laptop, Progress(total=1, checked=1, cost=Decimal("0.1")))
    assert (first.progress, first.finished_at) == (Progress(total=1, checked=1, cost=Decimal("0.1")), None)
    assert not write("b", tv, Progress(total=2, checked=1, cost=Decimal("0.2"))).finished_at
    own = store.begin_run(connection, run_id, shop.id, 2, "b").progress
    assert own == Progress(total=2, checked=1, cost=Decimal("0.2"))
    whole = write("b", tv, Progress(total=2, checked=1, failed=1, cost=Decimal("0.2")))
    assert whole.progress == Progress(total=3, checked=2, failed=1, cost=Decimal("0.3"))
    assert whole.finished_at
    assert store.begin_run(connection, run_id, shop.id, 2, "a").finished_at == whole.finished_at
    assert store.begin_run(connection, run_id, shop.id, 2, "c").finished_at is None


@pytest.mark.backends("postgres")
def test_parts_that_write_at_once_add_up(rank_engine: Engine, shop: RankConfig) -> None:
    """Who waited for another's write counts it."""
    run_id = uuid4()
    with rank_engine.begin() as connection:
        store.add_config(connection, shop)
        for part in "ab":
            store.begin_run(connection, run_id, shop.id, 1, part)
    one = Progress(total=1, checked=1)
    with ThreadPoolExecutor(1) as pool, rank_engine.begin() as connection:
        store.write_snapshots(connection, run_id, shop.id, [], one, "a")
        other = pool.submit(write_alone, rank_engine, run_id, shop.id, one)
        with pytest.raises(TimeoutError):
            other.result(0.5)
        connection.commit()
        other.result(30)
    with rank_engine.begin() as connection:
        run = store.get_run(connection, run_id)
    assert run
    assert run.progress == Progress(total=2, checked=2)


def write_alone(engine: Engine, run_id: UUID, config_id: str, progress: Progress) -> None:
    """Write a part's progress in a transaction of its own."""
    with engine.begin() as connection:
        store.write_snapshots(connection, run_id, config_id, [], progress, "b")


def test_a_report_compares_the_last_two_measurements(connection: Connection, stored: Stored, shop: RankConfig) -> None:
    """Of each keyword, as a run may have had some of them; unfinished runs and other configs are left out."""
    laptop, tv = stored("laptop", "tv")
    (theirs,) = stored("laptop", config_id="theirs")
    finished(connection, shop, snapshot(laptop, 2), token=1)
    finished(connection, shop, snapshot(laptop, 8), snapshot(tv, 5), token=2)
    newest = finished(connection, shop, snapshot(laptop, 4), token=3)
    finished(connection, replace(shop, id="theirs"), snapshot(theirs, 1))
    unfinished = uuid4()
    store.begin_run(connection, unfinished, shop.id, 1)
    late = Progress(total=1, checked=1)
    store.write_snapshots(connection, unfinished, shop.id, [snapshot(laptop, 20)], late)
    measurements = store.list_measurements(connection, shop.id)
    assert len(measurements) == 3
    report = build_report(shop, store.list_keywords(connection, shop.id), measurements)
    desktop = [row for row in report.rows if row.device is Device.DESKTOP]
    run = store.get_run(connection, newest)
    assert run is not None
    assert run.finished_at is not None
    assert [(row.position, row.before, row.change, row.best) for row in desktop] == [(4, 8, 4, 2), (5, None, None, 5)]
    assert [row.note for row in desktop] == ["", f"on {run.finished_at:%Y-%m-%d}"]
    assert report.finished_at == run.finished_at


def test_a_check_survives_its_process(rank_engine: Engine, shop: RankConfig) -> None:
    """A check that dies between two batches is finished by its next try, each pair measured and paid once."""
    names = ["beste mechanische toetsenborden", "laptop kopen", "tweedehands fiets", "usb-c dock"]
    source = RecordedSource(RECORDINGS)
    run_id = uuid4()
    with rank_engine.begin() as connection:
        store.add_config(connection, shop)
        store.import_keywords(connection, shop.id, names)

    def attempt(token: int, batches: float) -> Progress:
        with rank_engine.begin() as connection:
            run = store.begin_run(connection, run_id, shop.id, token)
            keywords = store.list_keywords(connection, shop.id)
            done = store.list_done(connection, run_id)
        written = 0

        def write(batch: Sequence[Snapshot], progress: Progress) -> None:
            nonlocal written
            if written > batches:
                raise InterruptedError
            written += 1
            with rank_engine.begin() as connection:
                store.write_snapshots(connection, run_id, shop.id, batch, progress)

        return check(shop, keywords, source, write, done=done, spent=run.progress.cost, batch=3).progress

    with pytest.raises(InterruptedError):
        attempt(1_000_000, batches=1)
    with rank_engine.begin() as connection:
        half = store.get_run(connection, run_id)
        assert half is not None
        assert half.progress == Progress(total=8, checked=3)
    assert attempt(1_000_001, batches=9) == Progress(total=8, checked=6, failed=2)
    with rank_engine.begin() as connection:
        assert connection.scalar(select(func.count()).select_from(rank_snapshots)) == 8
        assert connection.scalar(select(rank_runs.c.token)) == 1_000_001
