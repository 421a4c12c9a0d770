"""From an Airflow connection to DataForSEO, and what the hook refuses on the way."""

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_rankguard.hooks.dataforseo import DataForSeoHook
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from tests.dataforseo.conftest import Connect, Purse, query

NOBODY: dict[str, Any] = {"host": None, "port": None, "schema": None}


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({}, "https://api.dataforseo.com"),
        ({"host": "sandbox.dataforseo.com"}, "https://sandbox.dataforseo.com"),
        ({"host": "https://api.dataforseo.com/"}, "https://api.dataforseo.com"),
        ({"host": "127.0.0.1", "port": 8080, "schema": "http"}, "http://127.0.0.1:8080"),
        ({"host": "http://127.0.0.1", "port": 8080}, "http://127.0.0.1:8080"),
    ],
)
def test_the_address_is_the_connections_or_the_providers(
    connect: Connect, fields: dict[str, Any], address: str
) -> None:
    """Encrypted, unless the connection says otherwise."""
    hook = connect(**NOBODY | fields)
    assert hook.base_url == address
    with hook.get_conn() as client:
        assert str(client.base_url).rstrip("/") == address


def test_the_account_is_the_login(connect: Connect) -> None:
    """By it calls per minute are counted."""
    assert connect(login="shop").account == "shop"


def test_a_client_made_from_it_is_let_in(connect: Connect, purse: Purse) -> None:
    """With every sign of its password."""
    with connect().get_conn() as client:
        assert DataForSeoSource(client, purse, purse, assert_held=purse.assert_held).fetch(query()).items


@pytest.mark.parametrize(("extra", "seconds"), [({}, 150), ({"timeout": 20}, 20), ({"timeout": "7.5"}, 7.5)])
def test_an_answer_may_take_so_long(connect: Connect, extra: dict[str, Any], seconds: float) -> None:
    """Longer than the provider itself lets a live search take, unless the connection says otherwise."""
    with connect(extra=extra).get_conn() as client:
        assert client.timeout.read == seconds


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"conn_type": "postgres"}, "is of type 'postgres'"),
        ({"login": None}, "has no login and password"),
        ({"password": None}, "has no login and password"),
        ({"extra": {"timeout": 5, "verify": False}}, "has the extra 'verify'"),
        ({"extra": {"timeout": "long"}}, "has 'long' for the extra 'timeout'"),
        ({"extra": {"timeout": 0}}, "has 0 for the extra 'timeout'"),
        ({"extra": {"timeout": "nan"}}, "has 'nan' for the extra 'timeout'"),
        ({"extra": {"timeout": None}}, "has None for the extra 'timeout'"),
    ],
)
def test_a_wrong_connection_is_refused_by_name(connect: Connect, wrong: dict[str, Any], named: str) -> None:
    """The text says what is wrong with which connection, and no password."""
    with pytest.raises(ValueError, match=f"^Connection 'serp' {named}") as caught:
        connect(**wrong).get_conn()
    assert "s3cret" not in str(caught.value)


def test_a_constructor_only_assigns() -> None:
    """A connection that does not exist is no matter before somebody calls."""
    hook = DataForSeoHook("nowhere")
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        hook.get_conn()
