"""The listener's worker: one thread per process that looks at ended runs after the scheduler has committed."""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass

from airflow_rankguard import metrics

log = logging.getLogger(__name__)

MOST_WAITING = 1000
PAUSES = (1.0, 5.0, 40.0)
"""Seconds before each look: after the commit, after a short drain, after a whole drain."""


@dataclass(frozen=True, order=True, slots=True)
class Recheck:
    """A DagRun to look at, at ``due`` on the process's monotonic clock."""

    due: float
    look: int
    dag_id: str
    run_id: str


_waiting: queue.PriorityQueue[Recheck] = queue.PriorityQueue(MOST_WAITING)
_starting = threading.Lock()
_worker: threading.Thread | None = None


def hand_over(dag_id: str, run_id: str) -> None:
    """Have a DagRun's keys looked at soon; dropped with a warning when too many are waiting."""
    _put(Recheck(time.monotonic() + PAUSES[0], 0, dag_id, run_id))
    _ensure_worker()


def _put(recheck: Recheck) -> None:
    try:
        _waiting.put_nowait(recheck)
    except queue.Full:
        log.warning("Too many ended runs wait for Rank Guard; %s is left to its key's next start.", recheck.run_id)


def _ensure_worker() -> None:
    global _worker  # noqa: PLW0603 - one thread per process
    with _starting:
        if _worker is None or not _worker.is_alive():
            _worker = threading.Thread(target=_work, name="rankguard-rechecks", daemon=True)
            _worker.start()


def _work() -> None:
    while True:
        recheck = _waiting.get()
        if (early := recheck.due - time.monotonic()) > 0:
            _put(recheck)
            time.sleep(min(early, PAUSES[0]))  # an earlier one may come meanwhile
            continue
        try:
            held = _look(recheck)
        except Exception:
            log.exception("Rank Guard could not look at %s; its key's next start does.", recheck.run_id)
            held = True
        if held and recheck.look + 1 < len(PAUSES):
            look = recheck.look + 1
            _put(Recheck(time.monotonic() + PAUSES[look], look, recheck.dag_id, recheck.run_id))


def _look(recheck: Recheck) -> bool:
    """Reclaim what the run holds and may not; True when something is still held."""
    from airflow_rankguard.dag_runs import ask_metadata  # noqa: PLC0415 - imported in every process, needed in few
    from airflow_rankguard.hooks.rankguard import RankGuardHook  # noqa: PLC0415

    hook = RankGuardHook()
    try:
        swept = hook.get_guard().sweep_dag_run(recheck.dag_id, recheck.run_id, ask_metadata)
    finally:
        hook.engine.dispose()
    for found in swept:
        if found.reclaimed:
            metrics.count_ended(found.run)
            log.info("Reclaimed %s from %s: %s.", found.run.key, found.run.owner, found.run.reason)
    return any(not found.reclaimed for found in swept)
