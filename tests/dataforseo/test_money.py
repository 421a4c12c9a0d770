"""Whatever goes wrong, in whatever order: nothing is paid for twice, and nothing is paid that is not accounted for."""

from collections.abc import Sequence
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from airflow_rankguard.rank.values import Device, Pair, Progress, RankConfig, Snapshot
from tests.dataforseo.conftest import Purse, client_of, keywords
from tests.dataforseo.faults import AGAIN, NEVER_AGAIN, SETTLED
from tests.dataforseo.provider import Fault, Provider, failed, http, refused, served

WORDS = ("a", "site:b", "c")
UNPAID = {**AGAIN, "no login": http(401), "no money": refused(40200), "bad field": failed(40501)}
PAID = {name: fault for name, (fault, _) in (NEVER_AGAIN | SETTLED).items() if name != "silence"}
FAULTS: dict[str, Fault] = UNPAID | PAID
BOTH = RankConfig(id="shop", domain="shop3.nl", location_code=2528, language_code="nl", devices=tuple(Device), depth=20)


@settings(max_examples=60, deadline=None)
@given(
    faults=st.fixed_dictionaries(
        {word: st.lists(st.sampled_from(sorted(FAULTS)), min_size=2, max_size=6) for word in WORDS}
    ),
    ceiling=st.integers(0, 100).map(lambda thousandths: Decimal(thousandths) / 1000),
    tries=st.integers(1, 3),
    batch=st.sampled_from((1, 4)),
)
def test_the_purse_is_right(faults: dict[str, list[str]], ceiling: Decimal, tries: int, batch: int) -> None:
    """The provider is owed no more than the purse says, that no more than the ceiling, and the run says the same."""
    purse, done, progress = Purse(ceiling=ceiling), dict[Pair, str | None](), [Progress()]

    def write(snapshots: Sequence[Snapshot], reached: Progress) -> None:
        done.update({(shot.keyword_id, shot.device): shot.reason for shot in snapshots})
        progress.append(reached)

    with served(Provider()) as provider, client_of(provider) as client:
        for word, names in faults.items():
            provider.fails(word, *(FAULTS[name] for name in names))
        source = DataForSeoSource(client, purse, purse, assert_held=purse.assert_held, sleep=lambda _: None)
        for _ in range(tries):
            summary = check(
                BOTH, keywords(*WORDS), source, write, done=dict(done), spent=progress[-1].cost, batch=batch
            )
            assert bool(summary.stopped) is (len(done) < len(WORDS) * len(Device))
    assert set(provider.paid.values()) <= {1}
    assert provider.due <= purse.spent == progress[-1].cost <= ceiling
