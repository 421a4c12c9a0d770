"""Keys: one documented normalisation, and errors that show what was wrong."""

import random
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_rankguard.guard.errors import BadKey, GuardError
from airflow_rankguard.guard.outcomes import Acquired
from airflow_rankguard.guard.spelling import LONGEST_PART
from airflow_rankguard.guard.values import GuardKey, Member, Owner
from tests.guard.stage import FIRST, Stage, owner

NFC, NFD = "Zürich", unicodedata.normalize("NFD", "Zürich")
PARTS = ("kind", "resource", "tenant")
RUBBISH = {"an": "undefined value"}


def key(part: str = "resource", value: object = "42") -> GuardKey:
    """A key that is good but for one part."""
    return GuardKey(**{"kind": "rank_check", "resource": "42", part: value})  # type: ignore[arg-type]


@given(st.text())
@example("\u2000e\u0301\u2000")
@example("\x1c\u0344")
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    """Whatever text is accepted comes out as a fixed point: stripped, NFC, short, and visible."""
    try:
        once = key(value=text)
    except BadKey:
        return
    assert key(value=once.resource) == once
    assert once.resource == unicodedata.normalize("NFC", once.resource.strip())
    assert 1 <= len(once.resource) <= LONGEST_PART


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("one", "other"),
    [(42, "42"), (" shop\n", "shop"), (NFC, NFD), ("\u00a0shop", "shop"), (10**20, "1" + "0" * 20)],
)
def test_what_looks_the_same_is_one_key(part: str, one: object, other: object) -> None:
    """Numbers and their digits, blanks around, and both ways to write an umlaut are one key."""
    assert key(part, one) == key(part, other)
    assert hash(key(part, one)) == hash(key(part, other))


@pytest.mark.parametrize(("one", "other"), [("Shop", "shop"), ("shop", "shop 2"), ("42", "042")])
def test_what_differs_visibly_is_two_keys(one: str, other: str) -> None:
    """Case, inner blanks and leading zeros count."""
    assert key(value=one) != key(value=other)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "is empty"),
        (" \t\n", "is empty"),
        ("x" * 256, "is longer than 255 characters"),
        ("x" * 10_000, "is longer than 255 characters"),
        ("e\u0301" * 256, "is longer than 255 characters"),
        (None, "is not text"),
        (True, "is not text"),
        (4.2, "is not text"),
        (b"42", "is not text"),
        (RUBBISH, "is not text"),
        ("a\u200bb", "invisible"),  # zero width space
        ("a\u200db", "invisible"),  # zero width joiner
        ("\ufeffa", "invisible"),  # byte order mark
        ("a\u2060b", "invisible"),  # word joiner
        ("a\u202eb", "invisible"),  # right to left
        ("a\u00adb", "invisible"),  # soft hyphen
        ("a\x00b", "invisible"),
        ("a\nb", "invisible"),
        ("a\ud800b", "invisible"),  # half a character
        ("a\u034fb", "invisible"),  # combining grapheme joiner
        ("a\ufe0fb", "invisible"),  # variation selector
        ("a\U000e0100b", "invisible"),  # variation selector of another plane
        ("a\u180bb", "invisible"),  # Mongolian variation selector
        ("\u3164", "invisible"),  # Hangul filler
        ("a\u115fb", "invisible"),  # Hangul choseong filler
    ],
    ids=ascii,
)
@pytest.mark.parametrize("part", ["kind", "resource"])
def test_a_bad_part_is_refused_at_once(part: str, value: object, why: str) -> None:
    """An empty, too long, invisible or textless part is a ValueError that names the part and shows the value."""
    with pytest.raises(BadKey, match=f"The guard key's {part} .*{why}") as caught:
        key(part, value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, GuardError)
    assert (caught.value.part, caught.value.value) == (part, value)


def test_only_the_tenant_may_be_empty() -> None:
    """No tenant and an empty one are the same."""
    assert key("tenant", " ") == key()
    assert key().tenant == ""


def test_a_long_key_is_shown_shortened() -> None:
    """The error of a key of 10,000 characters is one short line with the beginning and the length."""
    with pytest.raises(BadKey) as caught:
        key(value="shop\u200b" + "x" * 10_000)
    assert "shop\\u200bxxx" in str(caught.value)
    assert "10005 characters" in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("shop", " shop ", True), (NFC, NFD, True), (42, "42", True), ("Shop", "shop", False), ("x", "x" * 255, False)],
)
def test_both_databases_compare_keys_alike(stage: Stage, one: object, other: object, same: bool) -> None:
    """The databases tell keys apart exactly where the normalisation does."""
    first = stage.guard.acquire(key(value=one), owner("r1"), FIRST, stage.answers)
    second = stage.guard.acquire(key(value=other), owner("r2"), FIRST, stage.answers)
    assert isinstance(first, Acquired)
    assert isinstance(second, Acquired) is not same
    assert first.run.key == key(value=one)


def incompressible(first: int, last: int) -> dict[str, str]:
    """Three parts of 255 characters of a range, in no order that a database could pack."""
    chance = random.Random(1)
    return {part: "".join(chr(chance.randrange(first, last)) for _ in range(255)) for part in PARTS}


def test_the_longest_keys_fit_both_databases(stage: Stage) -> None:
    """Three parts of 255 Chinese characters are held and found again."""
    longest = GuardKey(**incompressible(0x4E00, 0x9F00))
    outcome = stage.guard.acquire(longest, owner(), FIRST, stage.answers)
    assert isinstance(outcome, Acquired)
    seen = stage.guard.look(longest)
    assert seen
    assert seen.run.key == longest


def test_what_no_index_can_hold_is_a_bad_key() -> None:
    """More bytes than PostgreSQL can index (2,704 in a row) are refused as a key, not as trouble with the database."""
    with pytest.raises(BadKey, match="bytes"):
        GuardKey(**incompressible(0x20000, 0x2A000))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (key(), "rank_check/42"),
        (GuardKey(kind="rank_check", resource="42", tenant="acme"), "acme/rank_check/42"),
        (Owner(deployment="d", dag_id="shop", run_id="r1"), "DAG shop run r1"),
        (Owner(deployment="d", dag_id="shop", run_id="r1", guard_id="g.acquire"), "DAG shop run r1 (g.acquire)"),
        (
            Owner(deployment="d", dag_id="shop", run_id="r1", guard_id="g.acquire", map_index=0),
            "DAG shop run r1 (g.acquire[0])",
        ),
        (Member(task_id="work", map_index=3, try_number=2), "work[3] try 2"),
    ],
)
def test_values_name_themselves(value: object, words: str) -> None:
    """Messages name keys, owners and members as people do."""
    assert str(value) == words
