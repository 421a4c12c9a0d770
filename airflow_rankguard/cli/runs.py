"""The verbs about guarded runs."""

from __future__ import annotations

import getpass
from argparse import Namespace
from collections.abc import Sequence

from airflow_rankguard.cli.connecting import Place, connected
from airflow_rankguard.cli.exit_codes import ExitCode, UsageError
from airflow_rankguard.cli.progress import progress
from airflow_rankguard.cli.records import event_record, place_record, presence_record, run_record, swept_record
from airflow_rankguard.cli.rendering import present, remark
from airflow_rankguard.cli.tables import (
    events_table,
    places_table,
    presences_table,
    run_table,
    runs_table,
    swept_table,
)
from airflow_rankguard.guard.errors import GuardError
from airflow_rankguard.guard.judging import judge
from airflow_rankguard.guard.outcomes import Alive, Ended, Starting, Swept, Unchanged
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.store import history
from airflow_rankguard.guard.store.looks import Wanted
from airflow_rankguard.guard.values import Presence, Sighting

FILTERS = ("active", "kind", "resource", "tenant", "dag_id", "older_than", "limit")


def list_runs(args: Namespace) -> ExitCode:
    """List guarded runs, or who waits.

    :raises UsageError: it is to list those who hold and those who wait.
    """
    if args.waiting:
        return _list_waiting(args)
    with connected(args) as place:
        runs = place.guard().runs(Wanted(**{name: getattr(args, name) for name in FILTERS}))
    present(args.output, [run_record(run) for run in runs], runs_table(runs) if runs else "No guarded run.")
    return ExitCode.OK


def _list_waiting(args: Namespace) -> ExitCode:
    if args.active:
        raise UsageError("--waiting lists those who hold nothing: leave out --active.")
    with connected(args) as place:
        waiting = place.guard().waiting(Wanted(**{name: getattr(args, name) for name in FILTERS}))
    present(args.output, [place_record(one) for one in waiting], places_table(waiting) if waiting else "Nobody waits.")
    return ExitCode.OK


def show(args: Namespace) -> ExitCode:
    """Show one guarded run."""
    with connected(args) as place:
        guard = place.guard()
        seen = guard.look_run(args.run_id)
        events = guard.events(args.run_id)
    if seen is None:
        remark(f"rankguard: there is no guarded run {args.run_id}.")
        return ExitCode.REFUSED
    value = {
        "run": run_record(seen.run),
        "presences": [presence_record(presence) for presence in seen.presences],
        "events": [event_record(event) for event in events],
    }
    inside = presences_table(seen.presences) if seen.presences else "Nobody is inside."
    happened = events_table(events) if events else "Nothing happened to it."
    present(args.output, value, run_table(seen.run), inside, happened)
    return ExitCode.OK


def release(args: Namespace) -> ExitCode:
    """Free a key by hand.

    :raises UsageError: it is to wait and not to wait.
    :raises StillInside: those inside did not leave in time.
    """
    if args.now and args.wait is not None:
        raise UsageError("--now does not wait: leave out --wait.")
    with connected(args) as place:
        seen = place.guard().look_run(args.run_id)
        alive = None if seen is None or args.even_if_alive else _why_alive(place, seen)
        outcome = _living(seen, alive) if seen and alive else _forced(place, args, seen)
    if isinstance(outcome, Ended):
        said = f"Freed {outcome.run.key}, which {outcome.run.owner} held."
        present(args.output, {"ended": True, "run": run_record(outcome.run), "holder": None, "why": None}, said)
        return ExitCode.OK
    run, holder = (one and run_record(one) for one in (outcome.run, outcome.holder))
    present(args.output, {"ended": False, "run": run, "holder": holder, "why": outcome.why})
    remark(f"rankguard: Nothing was freed: {outcome.why}.")
    return ExitCode.REFUSED


def _why_alive(place: Place, seen: Sighting) -> str | None:
    """Say why a holder is alive, or may be; None when it is not, or holds nothing."""
    verdict = judge(place.database(), seen, place.deployment or "", place.asking).verdict
    return verdict.why if seen.run.active and isinstance(verdict, Alive | Starting) else None


def _living(seen: Sighting, why: str) -> Unchanged:
    said = f"{seen.run.owner} may be at work, since {why}; say --even-if-alive to free {seen.run.key} nevertheless"
    return Unchanged(run=seen.run, holder=seen.run, why=said)


def _forced(place: Place, args: Namespace, seen: Sighting | None) -> Ended | Unchanged:
    guard = place.guard(patience=args.wait)
    if seen is not None and seen.run.active and seen.presences:
        _say_for_whom_it_waits(guard, seen.presences, now=args.now)
    by = args.by or getpass.getuser()
    return guard.force_release(args.run_id, place.asking, reason=args.reason, by=by, now=args.now)


def _say_for_whom_it_waits(guard: Guard, presences: Sequence[Presence], *, now: bool) -> None:
    inside = ", ".join(f"{one.member} (since {one.entered_at:%H:%M:%S} UTC)" for one in presences)
    if now:
        remark(f"Not waiting for {inside}: work may overlap with the next holder's.")
    else:
        remark(f"Waiting at most {guard.timings.patience} for {inside} to leave; the doors are closed.")


def sweep(args: Namespace) -> ExitCode:
    """Judge each active run, and reclaim the stale ones.

    :raises UsageError: nobody said whose runs.
    """
    swept: list[Swept] = []
    try:
        with connected(args) as place:
            _refuse_to_guess(place)
            total = place.database().look(history.count_active, place.deployment or "")
            with progress("Judging", total) as told:
                for one in place.guard().sweep(place.asking, dry_run=args.dry_run):
                    swept.append(one)
                    told(1)
            gone = [] if args.dry_run else list(place.guard().sweep_waiters(place.asking))
    except GuardError:
        _present_swept(args.output, swept)
        raise
    _present_swept(args.output, swept)
    for waiter in gone:
        remark(f"Taken out of the line for {waiter.key}: {waiter.owner}, which will not come.")
    return ExitCode.OK if all(one.verdict for one in swept) else ExitCode.REFUSED


def _present_swept(output: str, swept: Sequence[Swept]) -> None:
    table = swept_table(swept) if swept else "No active run was judged."
    present(output, [swept_record(one) for one in swept], table)


def _refuse_to_guess(place: Place) -> None:
    if place.deployment is None:
        raise UsageError("Whose runs? Say --deployment, or go by an Airflow connection.")
    if place.ask is None:
        remark("No Airflow at hand: every DagRun counts as alive, so none is reclaimed for having ended.")


def prune(args: Namespace) -> ExitCode:
    """Delete old history."""
    with connected(args) as place, progress("Deleting") as told:
        gone = place.guard().prune(args.older_than, batch=args.batch, told=told)
    present(args.output, {"deleted": gone}, f"{gone} rows deleted.")
    return ExitCode.OK
