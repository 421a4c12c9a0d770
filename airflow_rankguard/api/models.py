"""What is asked and answered, as OpenAPI describes it."""

from __future__ import annotations

import json
import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from airflow_rankguard.guard.store.sights import Kind

ZERO = re.compile(r"(?<!\\)(\\\\)*\\u0000")
"""A zero character as JSON writes it, and not a backslash before these letters."""


def _speakable(text: str) -> str:
    if "\0" in text:
        raise ValueError("a zero character is in it, which PostgreSQL keeps in no text")
    return text


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("it says nothing")
    return text.strip()


def _json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is in it, which is no character") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if ZERO.search(text):
        raise ValueError("a zero character is in it, which PostgreSQL keeps in no JSON")
    return value


SPEAKABLE = Field(json_schema_extra={"pattern": r"^[^\x00]*$"})
Name = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_speakable), SPEAKABLE]
RunName = Annotated[str, StringConstraints(min_length=1, max_length=250), AfterValidator(_speakable), SPEAKABLE]
Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_speakable), AfterValidator(_said), SPEAKABLE
]
Row = TypeVar("Row")


class ProblemDetails(BaseModel):
    """An answer that is no success."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str


class Page(BaseModel, Generic[Row]):
    """Some rows of a list."""

    now: datetime | None = Field(description="the guard database's clock; null when there are no rows")
    rows: list[Row]
    next: str | None = Field(description="the `after` of the next page; null on the last one")


class Summary(BaseModel):
    """How many there are of each."""

    now: datetime
    deployment: str
    active: int
    waiting: int
    refused: int
    held_unusually_long: int
    unusually_long_after: float
    counted_to: int


class OwnedRow(BaseModel):
    """A key, and whose it is."""

    key: str
    kind: str
    resource: str
    tenant: str
    deployment: str
    dag_id: str
    run_id: str
    guard_id: str
    map_index: int
    page: str | None = Field(description="the DagRun's page, relative to Airflow's address")


class RunRow(OwnedRow):
    """A guarded run."""

    id: UUID
    status: str
    token: int
    claimed_at: datetime
    since: datetime
    ending_at: datetime | None
    reason: str | None
    run_type: str | None
    requested_by: str | None


class Inside(BaseModel):
    """A guarded task's process that is inside now."""

    task_id: str
    map_index: int
    try_number: int
    entered_at: datetime


class Progress(BaseModel):
    """How far a rank check is."""

    config_id: str
    total: int
    checked: int
    failed: int
    cost: Decimal


class Verdict(BaseModel):
    """What the next start would decide about a holder."""

    word: Literal["alive", "starting", "draining", "stale"]
    why: str
    until: datetime | None
    foreign: bool


class ActiveRow(RunRow):
    """A guarded run that holds its key."""

    active: Literal[True] = True
    held_seconds: float
    held_unusually_long: bool
    inside: list[Inside]
    progress: Progress | None
    verdict: Verdict
    may_force_release: bool


class EndedRow(RunRow):
    """A guarded run that has ended."""

    active: Literal[False] = False
    ended_at: datetime
    cause: str


class Other(BaseModel):
    """A run or a waiter that stands before somebody; without names where the caller may not see it."""

    kind: Kind
    id: UUID | None = None
    dag_id: str | None = None
    run_id: str | None = None
    page: str | None = None
    hidden: bool


class WaiterRow(OwnedRow):
    """One who waits for a key."""

    id: UUID
    policy: str
    asked_at: datetime
    waiting_seconds: float
    position: int | None
    behind: Other | None


class RefusalRow(OwnedRow):
    """One who was refused."""

    id: int
    at: datetime
    reason: str | None
    blocker: Other | None


class EventRow(BaseModel):
    """Something that happened to, or because of, a run."""

    at: datetime
    event: str
    dag_id: str | None = None
    run_id: str | None = None
    guard_id: str | None = None
    map_index: int | None = None
    actor: str | None = None
    reason: str | None = None
    hidden: bool


class OneRun(BaseModel):
    """A guarded run, and what happened."""

    now: datetime
    run: ActiveRow | EndedRow
    events: list[EventRow]


class ForceRelease(BaseModel):
    """A wish to free a key by hand."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason
    even_if_alive: bool = False
    now: bool = Field(default=False, description="do not wait for those inside: work may then overlap")


class Freed(BaseModel):
    """The key is free."""

    outcome: Literal["freed"] = "freed"
    said: str
    run: EndedRow


class Draining(BaseModel):
    """The doors are closed, and somebody is inside."""

    outcome: Literal["draining"] = "draining"
    said: str
    inside: list[Inside]


class Start(BaseModel):
    """A wish to run a DAG under a key."""

    model_config = ConfigDict(extra="forbid")

    dag_id: RunName
    run_id: RunName = Field(description="chosen once per wish, the same in each try of it")
    kind: Name
    resource: Name
    tenant: Name = ""
    conf: Annotated[dict[str, Any], AfterValidator(_json)] = {}


class Started(BaseModel):
    """The DagRun exists and its key was claimed for it before."""

    outcome: Literal["created"] = "created"
    said: str
    run: Other


class AlreadyRunning(BaseModel):
    """Nothing was created: the key is held, or kept for one that waits."""

    outcome: Literal["already_running"] = "already_running"
    said: str
    run: Other
    since: datetime
    why: str | None = None
