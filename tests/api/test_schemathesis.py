"""The OpenAPI document and the app: whatever is asked, by whomever, the answer is one that the document describes."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import URL, Response
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation.feedback import NO_FEEDBACK
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi import checks

from airflow_rankguard.api import security
from airflow_rankguard.api.connecting import Places
from airflow_rankguard.api.models import ForceRelease, ProblemDetails, Start
from airflow_rankguard.api.problems import MEDIA_TYPE, PROBLEMS
from airflow_rankguard.guard.values import GuardedRun, Policy
from tests.api.conftest import CONNECTION
from tests.api.server import PREFIX, connection_to
from tests.api.stage import Scene, key
from tests.conftest import DEPLOYMENT
from tests.databases import Database

Client = Callable[..., TestClient]
AnyCase = Case[Any]
Operation = APIOperation[Any, Any, Any, Any]
Ask = Callable[[str, AnyCase], None]

NOBODY = "nobody"
ROLES = {"vera": "VIEWER", "ulf": "USER", "otto": "OP", "root": "ADMIN", "ann": "USER"}
CALLERS = (NOBODY, *ROLES)
# `gone` is a DAG that Airflow does not have.
DAGS = ("open", "closed", "gone")
HIDDEN = {NOBODY: DAGS, "ann": ("closed", "gone")}
# With these nobody waits for somebody who is inside, or for a DagRun that is not there yet.
SHORT = {"startup_grace": 0.01, "drain_timeout": 0.01, "patience": 0.01}
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
ALWAYS: tuple[CheckFunction, ...] = (
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
    checks.missing_required_header,
    checks.allow_header_conformance,
)
# No login, none that is worth anything, or no such method.
KEPT_OUT = {401, 403, 405}
EXAMPLES = 10


def mark(dag_id: str) -> str:
    """What stands in each row of a DAG, and in nothing that is sent."""
    return f"mark.{dag_id}"


@pytest.fixture
def crowd(scene: Scene, database: Database, monkeypatch: pytest.MonkeyPatch) -> list[GuardedRun]:
    """For each DAG a run that has ended, one that holds with somebody inside, and some who were refused or wait."""
    told = connection_to(database.task_url, **{"deployment": DEPLOYMENT, "schema": database.schema, **SHORT})
    monkeypatch.setenv(CONNECTION, told)
    monkeypatch.setattr(security, "PLACES", Places())
    return [run for dag_id in DAGS for run in rows_of(dag_id, scene)]


def rows_of(dag_id: str, scene: Scene) -> Iterator[GuardedRun]:
    """Let there be rows of a DAG; give those of the guarded runs."""
    name, of = mark(dag_id), key(dag_id)
    ended = scene.hold(dag_id, f"{name}.ended", of=of)
    scene.end(ended, reason=name)
    if dag_id != "gone":
        scene.dag_run(dag_id, name, "running", check="running")
    held = scene.hold(dag_id, name, of=of)
    scene.enter(held, task_id=name)
    for policy in (None, Policy.WAIT, Policy.JOIN):
        scene.refuse(dag_id, f"{name}.{policy}", of=of, policy=policy)
    yield from (ended, held)


@pytest.fixture
def operations(server: FastAPI, client: Client) -> list[Operation]:
    """What the document describes, which the app itself has answered with."""
    login = {"Authorization": client().headers["Authorization"]}
    document: BaseSchema = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", server, headers=login)
    found = [result.ok() for result in document.get_all_operations() if isinstance(result, Ok)]
    assert len(found) == 8
    return found


@pytest.fixture
def ask(client: Client) -> Ask:
    """Ask as somebody, with a login and what the document says; look at the answer."""

    def ask(name: str, case: AnyCase) -> None:
        login = {} if name == NOBODY else {"Authorization": client(name, ROLES[name]).headers["Authorization"]}
        answer = case.call(headers=login)
        case.validate_response(answer, checks=looked_for(case), headers=login)
        assert answer.status_code in KEPT_OUT or name != NOBODY
        assert not (allowed(case) and "not-from-this-site" in answer.text)
        assert not [dag_id for dag_id in HIDDEN.get(name, ()) if mark(dag_id) in answer.text]

    return ask


def allowed(case: AnyCase) -> bool:
    """Whether the document allows a request."""
    assert case.meta is not None
    return case.meta.generation.mode is GenerationMode.POSITIVE


def looked_for(case: AnyCase) -> list[CheckFunction]:
    """What an answer is looked at for.

    Not in the answers to a query: one that names a filter twice, or spells a number otherwise, is understood; and what
    `after` may be was said by the page before.
    """
    if case.method == "POST":
        return [*ALWAYS, checks.negative_data_rejection]
    return [*ALWAYS] if "after" in case.query else [*ALWAYS, checks.positive_data_acceptance]


def try_out(what: SearchStrategy[Any], examples: int, test: Callable[[Any], None]) -> None:
    """Test many examples. An answer depends on all that was asked before: no smaller example is looked for."""

    @settings(
        max_examples=examples,
        phases=[Phase.explicit, Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(what)
    def tried(one: Any) -> None:
        test(one)

    tried()


def cases_of(operation: Operation, crowd: list[GuardedRun]) -> SearchStrategy[AnyCase]:
    """What the document allows and what it does not, most of it about what there is."""
    there: list[dict[str, Any]] = [{}]
    if "{id}" in operation.path:
        there += [{"path_parameters": {"id": str(run.id)}} for run in crowd]
    if operation.path == "/starts":
        there += [{"body": wish(dag_id, resource)} for dag_id in (*DAGS, "paused") for resource in (*DAGS, "new")]
    return st.one_of([operation.as_strategy(mode, feedback=NO_FEEDBACK, **some) for mode in MODES for some in there])


def wish(dag_id: str, resource: str) -> dict[str, Any]:
    """To start a run."""
    return {
        "dag_id": dag_id,
        "run_id": f"r.{resource}",
        "kind": "rank_check",
        "resource": resource,
        "conf": {"count": 1},
    }


@pytest.mark.parametrize("name", CALLERS)
def test_what_the_document_allows_and_what_it_does_not(
    name: str, operations: list[Operation], crowd: list[GuardedRun], ask: Ask
) -> None:
    """Each answer is one that the document describes, and shows nothing of a DAG that its caller may not see."""
    for operation in operations:
        try_out(cases_of(operation, crowd), EXAMPLES, lambda case: ask(name, case))


def at_the_bounds_of(operation: Operation) -> Iterator[AnyCase]:
    """Each parameter and field left out, of another type, at its bound and above; and each other method."""
    config = operation.schema.config.generation
    yield from operation.schema.iter_coverage_cases(operation, generation_modes=MODES, generation_config=config)


@pytest.mark.usefixtures("crowd")
def test_each_bound_that_the_document_names(operations: list[Operation], ask: Ask) -> None:
    """An administrator gets an answer that the document describes, on either side of it."""
    for operation in operations:
        for case in at_the_bounds_of(operation):
            ask("root", case)


@pytest.mark.backends("sqlite")
@pytest.mark.usefixtures("crowd")
def test_nobody_is_told_what_is_wrong_with_a_request(operations: list[Operation], ask: Ask) -> None:
    """Whatever it is, without a login it is 401: it is not even read."""
    for operation in operations:
        for case in at_the_bounds_of(operation):
            ask(NOBODY, case)


# What no client sends by itself.

TEXT = st.text(st.characters() | st.sampled_from("\0\ud800\udfff\u202e\u200b\ufdfa/."), max_size=20)
LONG = st.sampled_from([256, 1001, 5000]).map("x".__mul__)
ODD = st.sampled_from([float("nan"), float("-inf"), 1e308, 5e-324, -(2**63), 2**64, 10**400])
PLAIN = st.sampled_from([*DAGS, "paused", "rank_check", "r1", True, {"count": 1}])
JSON = st.recursive(
    TEXT | ODD | LONG | st.none() | st.booleans() | st.integers() | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
FIELDS = (*ForceRelease.model_fields, *Start.model_fields)
QUERIES = ("kind", "resource", "tenant", "dag_id", "run_id", "order", "held_longer_than", "limit", "after")
HEADERS = (
    "Authorization",
    "Cookie",
    "X-Rankguard-Request",
    "Sec-Fetch-Site",
    "Content-Type",
    "Accept",
    "Host",
    "Range",
)
METHODS = ("GET", "GET", "GET", "POST", "POST", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE")
PATHS = (
    "summary",
    "runs/active",
    "runs/ended",
    "waiters",
    "refusals",
    "starts",
    "openapi.json",
    "static/run-guards.js",
)


def quoted(text: Any) -> str:
    """As a part of an address; half a surrogate pair goes as the bytes that it would have."""
    return quote(str(text).encode("utf-8", "surrogatepass"), safe="")


def nested(depth: int) -> bytes:
    """A wish whose conf is so deep."""
    return json.dumps(wish("open", f"deep{depth}")).replace('"count": 1', f'"a": {"[" * depth}{"]" * depth}').encode()


def written(told: Any) -> bytes:
    """In JSON as Python writes it, with words for what is no number."""
    return json.dumps(told).encode()


@st.composite
def requests(draw: st.DrawFn, ids: list[str]) -> dict[str, Any]:
    """A request that may be anything."""
    known = [*PATHS, *(f"runs/{one}" for one in ids), *(f"runs/{one}/force-release" for one in ids)]
    # Starlette finds no mounted app for a path with a line break: that is answered by Airflow's own app.
    part = (TEXT | LONG).filter(lambda told: "\n" not in told).map(quoted)
    odd = st.tuples(st.sampled_from(["runs/", "static/", ""]), part).map("".join)
    query = draw(st.lists(st.tuples(st.sampled_from(QUERIES) | TEXT, JSON), max_size=3))
    path = f"{PREFIX}/{draw(st.sampled_from(known) | odd)}?{'&'.join(f'{quoted(n)}={quoted(v)}' for n, v in query)}"
    wishes = st.dictionaries(st.sampled_from(FIELDS) | TEXT, PLAIN | JSON, max_size=8)
    line = st.binary(max_size=20).filter(lambda told: not set(told) & set(b"\r\n\0"))
    headers = draw(st.dictionaries(st.sampled_from(HEADERS), line, max_size=2))
    return {
        "method": draw(st.sampled_from(METHODS)),
        "url": URL("http://test").copy_with(raw_path=path.encode()),
        "headers": {"Content-Type": b"application/json", **headers},
        "content": draw(st.binary() | (wishes | JSON).map(written) | st.integers(0, 1100).map(nested)),
    }


def look(name: str, answer: Response) -> None:
    """Look at the answer to a request that may be anything."""
    assert answer.status_code in {200, 201, 202, *(status for status, _ in PROBLEMS.values() if status < 500)}
    assert answer.status_code in {*KEPT_OUT, 404} or name != NOBODY
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert answer.headers["Content-Type"] == MEDIA_TYPE
        assert ProblemDetails.model_validate_json(answer.content).status == answer.status_code
    assert not [dag_id for dag_id in HIDDEN.get(name, ()) if mark(dag_id) in answer.text]


def test_what_no_client_sends_by_itself(client: Client, crowd: list[GuardedRun]) -> None:
    """Zero characters, halves of surrogate pairs, no numbers, huge ones, no JSON, depths: nothing is unexpected."""
    ids = [str(run.id) for run in crowd]

    def send(asked: tuple[str, dict[str, Any]]) -> None:
        name, request = asked
        speaker = client(None) if name == NOBODY else client(name, ROLES[name])
        look(name, speaker.request(**request))

    try_out(st.tuples(st.sampled_from(CALLERS), requests(ids)), 200, send)
