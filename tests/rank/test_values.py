"""Configs, domains and keywords have one spelling, and what cannot be right is refused by name."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from airflow_rankguard.rank.domains import covers, normalise_domain
from airflow_rankguard.rank.errors import BadConfig, BadKeyword
from airflow_rankguard.rank.keywords import normalise_keyword
from airflow_rankguard.rank.values import Device, RankConfig

LABELS = st.text("abcdefgh0123456789", min_size=1, max_size=8)
DOMAINS = st.builds("{}.{}".format, LABELS, st.sampled_from(["nl", "com", "co.uk"]))


@pytest.mark.parametrize(
    ("raw", "spelling"),
    [
        ("coolblue.nl", "coolblue.nl"),
        (" WWW.CoolBlue.NL. ", "coolblue.nl"),
        ("shop.coolblue.nl", "shop.coolblue.nl"),
        ("www.nl", "www.nl"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("straße.de", "xn--strae-oqa.de"),
    ],
)
def test_a_domain_has_one_spelling(raw: str, spelling: str) -> None:
    """Case, www, the dot at the end and the script do not make another domain."""
    assert normalise_domain(raw) == spelling


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "coolblue",
        "https://coolblue.nl",
        "coolblue.nl/pc",
        "a b.nl",
        "-a.nl",
        "a..nl",
        ".nl",
        "é..nl",
        "a" * 300,
    ],
)
def test_what_is_no_domain_is_refused(raw: str) -> None:
    """An address, a single word or an impossible character names the field and the value."""
    with pytest.raises(BadConfig, match="domain"):
        normalise_domain(raw)


@pytest.mark.parametrize(
    ("host", "covered"),
    [
        ("example.com", True),
        ("www.example.com", True),
        ("Shop.EXAMPLE.com.", True),
        ("notexample.com", False),
        ("example.com.evil.org", False),
        ("com", False),
        ("", False),
    ],
)
def test_a_domain_covers_its_subdomains_only(host: str, covered: bool) -> None:
    """A name that merely ends in the same letters is somebody else's."""
    assert covers("example.com", host) is covered


@given(domain=DOMAINS, prefix=LABELS)
def test_a_dot_decides_what_is_a_subdomain(domain: str, prefix: str) -> None:
    """With a dot between, any prefix makes a subdomain; without it, never."""
    assert covers(domain, f"{prefix}.{domain}")
    assert not covers(domain, f"{prefix}{domain}")


@pytest.mark.parametrize(
    ("raw", "spelling"),
    [
        ("  Laptop   KOPEN ", "laptop kopen"),
        ("cafe\u0301", "caf\u00e9"),
        ("a\u00a0b", "a b"),
        ("x" * 700, "x" * 700),
    ],
)
def test_a_keyword_has_one_spelling(raw: str, spelling: str) -> None:
    """Case, spaces and Unicode's ways of writing do not make another keyword."""
    assert normalise_keyword(raw) == spelling


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "empty"),
        (" \t ", "empty"),
        ("x" * 701, r"longer than 700 characters \(701\)"),
        ("lap\u200btop", r"U\+200B"),
        ("lap\ntop", r"U\+000A"),
        ("lap\ud800top", r"U\+D800"),
    ],
)
def test_a_keyword_nobody_can_search_is_refused(raw: str, reason: str) -> None:
    """The reason stands alone, so that an import can put the line in front."""
    with pytest.raises(BadKeyword, match=f"^(invisible character )?{reason}$"):
        normalise_keyword(raw)


@given(st.text())
def test_the_spelling_of_a_keyword_is_final(raw: str) -> None:
    """Normalising twice changes nothing, or a keyword could be in a config twice."""
    try:
        once = normalise_keyword(raw)
    except BadKeyword:
        assume(False)
    assert normalise_keyword(once) == once


def test_a_config_is_kept_in_one_spelling(shop: RankConfig) -> None:
    """Id, tenant, domain and devices come out normalised."""
    config = replace(shop, id=" shop ", domain="WWW.Shop.NL", devices=(Device.MOBILE, Device.DESKTOP), tenant=" t ")
    assert (config.id, config.domain, config.tenant) == ("shop", "shop.nl", "t")
    assert config.devices == (Device.DESKTOP, Device.MOBILE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", " "),
        ("id", "x" * 256),
        ("tenant", "a\u200bb"),
        ("domain", "shop"),
        ("location_code", 0),
        ("language_code", "dutch language"),
        ("devices", ()),
        ("devices", ("tablet",)),
        ("depth", 0),
        ("depth", 15),
        ("depth", 710),
    ],
)
def test_a_config_that_cannot_be_right_is_refused(shop: RankConfig, field: str, value: Any) -> None:
    """The text names the field."""
    with pytest.raises(BadConfig, match=field):
        replace(shop, **{field: value})
