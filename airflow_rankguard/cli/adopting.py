"""The verb ``adopt``: rows for DagRuns that were active before the guard was switched on."""

from __future__ import annotations

import getpass
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from airflow_rankguard.cli.airflow_runs import AirflowRun, active_runs, named_run
from airflow_rankguard.cli.connecting import Place, connected
from airflow_rankguard.cli.exit_codes import ExitCode, UsageError
from airflow_rankguard.cli.foreseeing import foreseen
from airflow_rankguard.cli.progress import progress
from airflow_rankguard.cli.records import Record, run_record
from airflow_rankguard.cli.rendering import Table, present, remark
from airflow_rankguard.guard.answers import AskAirflow, RunState, asked
from airflow_rankguard.guard.errors import BadKey, GuardLost
from airflow_rankguard.guard.outcomes import Acquired, Contended, Joined, Refused, Superseded
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Owner

ACTIVE = (RunState.QUEUED, RunState.RUNNING)


class Became(StrEnum):
    """What became of one DagRun."""

    ADOPTED = "adopted"
    WOULD_BE = "would be adopted"
    HELD = "held already"
    REFUSED = "refused"


COLOURS: dict[str, str] = {Became.ADOPTED: "green", Became.WOULD_BE: "green", Became.REFUSED: "red"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Adoption:
    """One DagRun and its key; why it was refused, or the row that it has now."""

    run: AirflowRun
    became: Became
    key: GuardKey | None = None
    why: str = ""
    row: GuardedRun | None = None


@dataclass(frozen=True, slots=True)
class Adopting:
    """How DagRuns are adopted: by the same insert as an ``acquire``, so that the index decides.

    :param args: the command line.
    :param promised: in a dry run, which run would have which key by now.
    """

    place: Place
    guard: Guard
    ask: AskAirflow
    args: Namespace
    promised: dict[GuardKey, AirflowRun] = field(default_factory=dict)

    def adopted(self, run: AirflowRun) -> Adoption:
        """Adopt one DagRun, or say what would become of it."""
        try:
            key = self._key(run)
        except BadKey as error:
            return Adoption(run=run, became=Became.REFUSED, why=str(error))
        owner = Owner(deployment=self.guard.deployment, dag_id=run.dag_id, run_id=run.run_id)
        answer = asked(self.ask, owner)
        if answer.state not in ACTIVE:
            why = ": ".join(filter(None, (f"its DagRun is {answer.state}", answer.why)))
            return Adoption(run=run, became=Became.REFUSED, key=key, why=why)
        seen = self.guard.look(key)
        if seen is not None and _is_of(seen.run.owner, owner):
            return Adoption(run=run, became=Became.HELD, key=key, row=seen.run)
        if self.args.dry_run:
            return self._would_be(run, key, owner)
        life = Life(run_started_at=answer.run_started_at, clear_number=answer.clear_number or 0)
        return self._taken(run, key, owner, life)

    def _key(self, run: AirflowRun) -> GuardKey:
        resource, name = self.args.resource, self.args.conf_field
        if name is not None:
            if name not in run.params:
                raise BadKey("resource", None, f"is in neither the run's conf nor its DAG's params: no {name!r} there")
            resource = run.params[name]
        return GuardKey(kind=self.args.kind, resource=resource, tenant=self.args.tenant)

    def _would_be(self, run: AirflowRun, key: GuardKey, owner: Owner) -> Adoption:
        if (earlier := self.promised.get(key)) is not None:
            why = f"{earlier} would have it by then"
            return Adoption(run=run, became=Became.REFUSED, key=key, why=why)
        found = foreseen(self.place, key, owner)
        if found.taken:
            self.promised[key] = run
        became = Became.WOULD_BE if found.taken else Became.REFUSED
        return Adoption(run=run, became=became, key=key, why=found.why)

    def _taken(self, run: AirflowRun, key: GuardKey, owner: Owner, life: Life) -> Adoption:
        by = f"adopted by {self.args.by or getpass.getuser()}"
        try:
            outcome = self.guard.acquire(key, owner, life, self.ask, run_type=run.run_type, requested_by=by)
        except GuardLost as error:
            return Adoption(run=run, became=Became.REFUSED, key=key, why=str(error))
        match outcome:
            case Acquired(run=row):
                return Adoption(run=run, became=Became.ADOPTED, key=key, row=row)
            case Refused() | Contended() as refusal:
                return Adoption(run=run, became=Became.REFUSED, key=key, why=str(refusal))
            case Superseded() | Joined():
                raise AssertionError("who adopts a run does not wait in line")
            case unreachable:
                assert_never(unreachable)


def adopt(args: Namespace) -> ExitCode:
    """Write rows for the DagRuns that the command line names.

    :raises UsageError: the resource is named twice or not at all, or there is no Airflow to ask.
    :raises NoAnswer: Airflow does not answer.
    """
    if (args.resource is None) == (args.conf_field is None):
        raise UsageError("Say where the key's resource comes from: --resource or --conf-field, one of them.")
    adoptions = []
    with connected(args) as place:
        if place.ask is None:
            raise UsageError("Airflow is asked about each run: go by an Airflow connection, not by a URL.")
        runs = named_run(args.dag_id, args.dag_run_id) if args.dag_run_id else active_runs(args.dag_id)
        adopting = Adopting(place, place.guard(), place.ask, args)
        with progress("Adopting", len(runs)) as told:
            for run in runs:
                adoptions.append(adopting.adopted(run))
                told(1)
    if not adoptions:
        which = f"run {args.dag_run_id}" if args.dag_run_id else "queued or running run"
        remark(f"rankguard: the DAG {args.dag_id} has no {which}.")
    present(args.output, [_record(one) for one in adoptions], *([_table(adoptions)] if adoptions else []))
    refused = not adoptions or any(one.became is Became.REFUSED for one in adoptions)
    return ExitCode.REFUSED if refused else ExitCode.OK


def _is_of(held: Owner, run: Owner) -> bool:
    return (held.deployment, held.dag_id, held.run_id) == (run.deployment, run.dag_id, run.run_id)


def _table(adoptions: Sequence[Adoption]) -> Table:
    rows = [(one.run, one.key, one.became, one.why) for one in adoptions]
    return Table("Runs from before the guard", ("run", "key", "became", "why"), rows, COLOURS)


def _record(one: Adoption) -> Record:
    """``run`` is the guarded run that holds the key for the DagRun, where there is one."""
    key = one.key
    return {
        "dag_id": one.run.dag_id,
        "run_id": one.run.run_id,
        "kind": key and key.kind,
        "resource": key and key.resource,
        "tenant": key and key.tenant,
        "became": one.became,
        "why": one.why,
        "run": one.row and run_record(one.row),
    }
