"""The example of another provider's source, as the page shows it, against a server that speaks its protocol."""

import json
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk import Connection

from airflow_rankguard.rank.check import Summary, check
from airflow_rankguard.rank.errors import SourceAway, SourceRefused
from airflow_rankguard.rank.keywords import Keyword
from airflow_rankguard.rank.values import Pair, RankConfig, Snapshot
from tests.docs.test_snippets import blocks

KEYWORDS = tuple(Keyword(id=number, text=text) for number, text in enumerate(("laptop", "500", "fiets"), start=1))
SHOP = RankConfig(id="shop", domain="coolblue.nl", location_code=2528, language_code="nl", depth=10)


class Search(BaseHTTPRequestHandler):
    """Finds the shop on place 2; a keyword that is a number is its HTTP status."""

    def do_GET(self) -> None:
        """Answer."""
        (keyword,) = parse_qs(urlsplit(self.path).query)["q"]
        found = [{"domain": domain, "url": f"https://{domain}/"} for domain in ("shop.nl", "www.coolblue.nl")]
        status = 401 if self.headers["Authorization"] != "Bearer s3cret" else int(keyword) if keyword.isdigit() else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"results": found}).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Where the provider listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Search) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def run(monkeypatch: pytest.MonkeyPatch, port: int, *keywords: Keyword, **account: str) -> tuple[Summary, Any]:
    """Check keywords with the page's source."""
    place: dict[str, Any] = {"schema": "http", "host": "127.0.0.1", "port": port, "password": "s3cret"}
    connection = Connection(conn_id="plain_serp", conn_type="http", **place | account)
    monkeypatch.setenv("AIRFLOW_CONN_PLAIN_SERP", connection.as_json())
    [code] = [code for page, code in blocks("python") if page == "another-provider.md"]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page's own
    rows: dict[Pair, Snapshot] = {}
    summary = check(SHOP, keywords, names["check"].source, lambda batch, _: rows.update(by_pair(batch)), batch=1)
    return summary, rows


def by_pair(batch: Any) -> dict[Pair, Snapshot]:
    """Snapshots by what they measure."""
    return {(one.keyword_id, one.device): one for one in batch}


def test_the_example_checks(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """A place for what was found, a reason for what failed, and the cost of what was paid."""
    summary, rows = run(monkeypatch, port, *KEYWORDS)
    assert [(row.position.organic, row.reason) for row in rows.values()] == [(2, None), (None, "HTTP 500"), (2, None)]
    assert summary.progress.cost == Decimal("0.002")


def test_the_example_stops(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """When the account is refused, the provider wants a pause, or is not there."""
    assert isinstance(run(monkeypatch, port, *KEYWORDS, password="wrong")[0].stopped, SourceRefused)
    assert isinstance(run(monkeypatch, port, Keyword(id=9, text="429"))[0].stopped, SourceAway)
    assert isinstance(run(monkeypatch, 1, *KEYWORDS)[0].stopped, SourceAway)
