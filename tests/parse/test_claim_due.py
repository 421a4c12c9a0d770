"""The claim of due configs as a task: what it takes, what it returns, and what it says."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from airflow.sdk import DAG, Connection
from airflow.sdk.exceptions import AirflowFailException
from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.operators.rank_check import RankCheckClaimDueOperator
from airflow_rankguard.rank import store
from airflow_rankguard.rank.due import DueConfig, Terms
from airflow_rankguard.rank.schedule import Schedule
from airflow_rankguard.rank.values import Device, RankConfig
from tests.databases import Database

HOUR = timedelta(hours=1)
ANCHOR = datetime(2026, 1, 1, 9, tzinfo=UTC)
DUE = ANCHOR + timedelta(days=1)
SHOP = RankConfig(
    id="shop", domain="shop.nl", location_code=2528, language_code="nl", devices=tuple(Device), tenant="t"
)


@pytest.fixture(autouse=True)
def dag() -> Iterator[DAG]:
    """A DAG that is open for tasks."""
    with DAG("dispatch", schedule=None, params={"value": "3"}) as opened:
        yield opened


@pytest.fixture
def connected(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection to the guard database."""
    url = database.task_url
    fields: dict[str, Any] = {"conn_type": "sqlite", "host": url.database}
    if database.schema:
        parts = {"login": url.username, "password": url.password, "host": url.host, "port": url.port}
        extra = json.dumps({"schema": database.schema})
        fields = {"conn_type": "postgres", "schema": url.database, "extra": extra, **parts}
    monkeypatch.setenv("AIRFLOW_CONN_RANKGUARD_DEFAULT", Connection(conn_id="x", **fields).as_json())


@pytest.fixture
def configs(engine: Engine) -> None:
    """Two that are due since January, an hour apart; the older one has no keywords."""
    with engine.begin() as connection:
        for config, hours in ((replace(SHOP, id="empty"), 1), (SHOP, 0)):
            store.add_config(connection, config)
            schedule = Schedule(every="daily", anchor=ANCHOR - hours * HOUR)
            store.set_schedule(connection, config.id, schedule, max_cost=Decimal(1), now=ANCHOR)
        store.import_keywords(connection, SHOP.id, ["red shoes", "blue shoes"])


@pytest.mark.usefixtures("connected", "configs")
def test_it_returns_what_a_mapped_task_needs(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain values; it logs why each other config is not among them, and one line with all counts."""
    (claimed,) = RankCheckClaimDueOperator(task_id="claim").execute({})
    following = GuardDatabase(engine).look(store.list_schedules)["shop"].next_due_at
    assert json.loads(json.dumps(claimed)) == {
        "config_id": "shop",
        "tenant": "t",
        "due_at": DUE.isoformat(),
        "next_due_at": following.isoformat(),
        "units": 4,
    }
    said = capsys.readouterr().out
    assert "empty, due at 2026-01-02T08:00:00+00:00, is skipped: no keywords." in said
    assert "1 configs claimed with 4 units, 1 skipped, 0 failed, 0 lost to others, 0 offered again;" in said
    assert "nothing more is due; the oldest had been due for " in said
    assert RankCheckClaimDueOperator(task_id="again").execute({}) == []


@pytest.mark.usefixtures("connected", "configs")
def test_it_claims_where_its_connection_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more guard databases than the default one."""
    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", os.environ["AIRFLOW_CONN_RANKGUARD_DEFAULT"])
    monkeypatch.delenv("AIRFLOW_CONN_RANKGUARD_DEFAULT")
    (claimed,) = RankCheckClaimDueOperator(task_id="claim", rankguard_conn_id="elsewhere").execute({})
    assert claimed["config_id"] == "shop"


@pytest.mark.usefixtures("connected", "configs")
def test_the_callers_rule_and_price_count(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule that fails leaves its config due, with a warning; a price makes the ceiling count."""

    def rule(config: DueConfig) -> str | None:
        raise LookupError(f"no plan of {config.tenant}")

    assert RankCheckClaimDueOperator(task_id="ruled", admit=rule).execute({}) == []
    assert (
        "shop, due at 2026-01-02T09:00:00+00:00, stays due: error: LookupError: no plan of t."
        in capsys.readouterr().out
    )
    assert RankCheckClaimDueOperator(task_id="dear", unit_price=Decimal("0.26")).execute({}) == []
    said = GuardDatabase(engine).look(store.list_schedules)["shop"].last_skip_reason
    assert said == "4 units cost 1.04 USD, over the ceiling of 1 USD"


@pytest.mark.usefixtures("connected")
@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    "arguments",
    [
        *({"limit": "0"}, {"limit": "some"}, {"limit": None}, {"unit_budget": 0}),
        *({"deadline": "-1"}, {"deadline": "nan"}, {"unit_price": "some"}),
    ],
)
def test_arguments_that_let_nothing_through_are_refused(arguments: dict[str, Any]) -> None:
    """When the task runs, and a retry would not help."""
    with pytest.raises(AirflowFailException, match="claim cannot claim anything"):
        RankCheckClaimDueOperator(task_id="claim", **arguments).execute({})


def test_templates_and_a_connection_that_does_not_exist_are_no_matter(dag: DAG) -> None:
    """Until the task runs; what is rendered then may be text."""
    fields = dict.fromkeys(RankCheckClaimDueOperator.template_fields, "{{ params.value }}")
    built = RankCheckClaimDueOperator(task_id="claim", grace=HOUR, **fields)  # type: ignore[arg-type] # all templates
    assert {getattr(built, field) for field in fields} == {"{{ params.value }}"}
    built.render_template_fields({"dag": dag, "params": {"value": "3"}, "task": built})
    terms = built._terms()
    assert (terms.limit, terms.unit_budget, terms.deadline, terms.grace) == (3, 3, timedelta(seconds=3), HOUR)
    assert RankCheckClaimDueOperator(task_id="nowhere", rankguard_conn_id="nowhere").task_id in dag.task_dict


@pytest.mark.parametrize("rendered", [{}, {"unit_price": ""}, {"unit_price": "None"}], ids=str)
def test_its_defaults_are_the_terms(rendered: dict[str, Any]) -> None:
    """The operator names them again so that whoever reads a DAG need not look for them; no price is none."""
    assert RankCheckClaimDueOperator(task_id="claim", **rendered)._terms() == Terms()
