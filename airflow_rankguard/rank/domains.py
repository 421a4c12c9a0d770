"""Domains as people write them and as result pages show them, in one spelling."""

from __future__ import annotations

import re

import idna

from airflow_rankguard.rank.errors import BadConfig

LONGEST_HOST = 253
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def normalise_domain(raw: str) -> str:
    """Give a domain in lower-case ASCII, without ``www.`` and without the dot at its end.

    :raises BadConfig: it is no domain but an address, a single word, or has an impossible character.
    """
    try:
        host = _ascii_host(raw)
    except ValueError as error:
        raise BadConfig(f"domain {raw[:LONGEST_HOST]!r} is not like example.com: {error}") from error
    bare = host.removeprefix("www.")
    return bare if "." in bare else host


def covers(domain: str, host: str) -> bool:
    """Tell whether ``host`` is the domain or one of its subdomains.

    :param domain: as ``normalise_domain`` gives it.
    :param host: as a result page shows it; one that cannot be a host is nobody's.
    """
    try:
        shown = _ascii_host(host)
    except ValueError:
        return False
    return shown == domain or shown.endswith(f".{domain}")


def _ascii_host(raw: str) -> str:
    host = raw.strip()
    if not host.isascii():
        host = idna.encode(host, uts46=True).decode("ascii")
    host = host.lower().removesuffix(".")
    if len(host) > LONGEST_HOST:
        raise ValueError(f"longer than {LONGEST_HOST} characters")
    labels = host.split(".")
    if len(labels) == 1:
        raise ValueError("it has no dot")
    for label in labels:
        if not LABEL.fullmatch(label):
            raise ValueError(f"impossible part {label!r}")
    return host
