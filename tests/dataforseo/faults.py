"""What can go wrong with a call, by what must become of it; where a keyword gets a reason, how that begins."""

from airflow_rankguard.rank.hearing import LOST
from tests.dataforseo.provider import (
    Fault,
    changed,
    cut,
    dropped,
    failed,
    garbled,
    http,
    refused,
    silent,
    spoken,
)

AGAIN = {
    "HTTP 429": http(429),
    "rate limit": refused(40202),
    "rate limit of a task": failed(40202),
    "too many at once": failed(40209),
    "server error": refused(50000),
    "server error of a task": failed(50301),
}
NEVER_AGAIN: dict[str, tuple[Fault, str]] = {
    "silence": (silent, f"{LOST} (ReadTimeout)"),
    "cut in the body": (cut, f"{LOST} (RemoteProtocolError)"),
    "no answer": (dropped, f"{LOST} (RemoteProtocolError)"),
    "server lost it": (http(500), f"{LOST} (HTTP 500)"),
    "nobody there": (http(503), f"{LOST} (HTTP 503)"),
    "gateway lost it": (spoken(502), f"{LOST} (HTTP 502)"),
    "gateway waited": (spoken(504), f"{LOST} (HTTP 504)"),
    "no JSON": (garbled(b"<html>"), f"{LOST} (not JSON)"),
    "half a JSON": (garbled(b'{"status_code": 20000, "tasks": [{'), f"{LOST} (not JSON)"),
    "no letters": (garbled(b"\xff\xfe\x00"), f"{LOST} (not JSON)"),
    "another JSON": (garbled(b"[]"), "wrong shape: the holder of status_code is []"),
    "no price": (changed(lambda it: (it.pop("cost"), it["tasks"][0].pop("cost"))), ""),
    "no number for a price": (changed(lambda it: it.update(cost=None)), ""),
}
SETTLED: dict[str, tuple[Fault, str]] = {
    "search engine error": (failed(40101, "Internal SE Server Error.", cost=0.002), "40101 Internal SE Server Error."),
    "paid server error": (failed(50000, "Internal Error.", cost=0.002), "50000 Internal Error."),
    "no tasks": (changed(lambda it: it.pop("tasks")), "wrong shape: tasks is None"),
    "no task": (changed(lambda it: it.update(tasks=[])), "wrong shape: 0 tasks for one search"),
    "the task twice": (changed(lambda it: it.update(tasks=it["tasks"] * 2, cost=0.002)), "wrong shape: 2 tasks"),
    "no code": (changed(lambda it: it["tasks"][0].pop("status_code")), "wrong shape: status_code is None"),
    "no result": (changed(lambda it: it["tasks"][0].pop("result")), "wrong shape: result is None"),
    "no data": (changed(lambda it: it["tasks"][0].pop("data")), "wrong shape: data is None"),
    "no place": (
        changed(lambda it: it["tasks"][0]["result"][0].update(items=[{"type": "organic", "rank_group": 1}])),
        "wrong shape: rank_absolute is None",
    ),
    "another keyword was asked": (
        changed(lambda it: it["tasks"][0]["data"].update(keyword="fiets")),
        "the answer is for keyword fiets",
    ),
    "another keyword was found": (
        changed(lambda it: it["tasks"][0]["result"][0].update(keyword="fiets")),
        "the answer is for keyword fiets",
    ),
    "another device": (
        changed(lambda it: it["tasks"][0]["data"].update(device="mobile")),
        "the answer is for device mobile",
    ),
    "another place": (
        changed(lambda it: it["tasks"][0]["result"][0].update(location_code=2840)),
        "the answer is for location 2840",
    ),
}
