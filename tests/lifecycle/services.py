"""The rows that stop a service: each is played alone."""

import signal
import time

from harness.airflow import COMPONENTS
from tests.lifecycle.playing import Scenario, scenario
from tests.lifecycle.stage import Row

SERVICES: list[Scenario] = []
OUTAGE = 30.0
TEN = 10


def without_api_server(row: Row) -> None:
    """Take Airflow's API server away for a while."""
    airflow = row.stage.airflow
    airflow.kill_component("api_server")
    row.watch(OUTAGE)
    airflow.restart_component("api_server")


@scenario(into=SERVICES)
def api_server_down_during_acquire(row: Row) -> None:
    """An acquire that waits for a drain can ask no more: unknown counts as alive, and nobody gets the key."""
    # Marked failed it would go on until its release is done; when its time is over it has ended, and its work lives.
    first = row.start_timed("timed_run", deaf=True)
    assert row.ended(first) == "failed"
    second = row.start("plain")
    row.until_task(second, "group.acquire", "running")
    row.compete()
    without_api_server(row)
    row.ended(second)
    row.until_won()


@scenario(into=SERVICES)
def api_server_down_during_the_fence(row: Row) -> None:
    """A fence cannot learn what its acquire took: the work fails or waits, and nobody else comes in meanwhile."""
    run = row.start("plain")
    row.until_task(run, "group.work", "running")
    row.compete()
    without_api_server(row)
    row.ended(run)
    row.until_won()


@scenario(into=SERVICES)
def api_server_down_during_the_release(row: Row) -> None:
    """A release that waits for a guarded task beside it can ask no more: it frees nothing before that has left."""
    run = row.start("branched", seconds=4 * OUTAGE)
    both = {process.member[1]: process for process in row.all_works(2)}
    row.compete()
    both["work"].tell("end")
    row.until_task(run, "release", "running")
    without_api_server(row)
    both["beside"].tell("end")
    row.ended(run)
    row.until_won()


@scenario(into=SERVICES)
def guard_database_restarted_during_the_work(row: Row) -> None:
    """The work goes on without the database, and leaves when it is back."""
    run = row.start("plain", seconds=4 * OUTAGE)
    process = row.work()
    row.compete()
    row.stage.guard_server.stop()
    time.sleep(2)
    row.stage.guard_server.start()
    row.watch(3)
    process.tell("end")
    assert row.ended(run) == "success"
    row.until_won()


@scenario(into=SERVICES)
def guard_database_down_during_the_release(row: Row) -> None:
    """The release uses its retries up and the run keeps its result; the key is recovered later."""
    run = row.start("plain", seconds=4 * OUTAGE)
    process = row.work()
    row.compete()
    row.stage.guard_server.stop()
    process.tell("end")
    ended = row.ended(run)
    states = row.rest.states(run)
    row.stage.guard_server.start()
    assert ended == "success"
    assert states["group.release"] == "failed"
    row.until_won()


@scenario(into=SERVICES)
def triggerer_killed_while_a_member_is_deferred(row: Row) -> None:
    """The member's trigger moves to another triggerer: nothing is freed, nothing taken, and the member resumes."""
    run = row.start("deferring", deferred=20)
    process = row.work()
    row.compete()
    row.until_task(run, "group.work", "deferred")
    airflow = row.stage.airflow
    airflow.kill_component("triggerer")
    row.watch(5)
    airflow.restart_component("triggerer")
    again = row.work(2)
    row.still_held()
    assert again.token == process.token
    assert row.ended(run) == "success"
    row.until_won()
    assert len(row.guarded_runs()) == 2


@scenario(into=SERVICES)
def everything_stops_hard_with_ten_runs(row: Row) -> None:
    """Airflow, its database and the guard database lose their power and start together, with ten runs for one key."""
    runs = [row.start("plain", seconds=10) for _ in range(TEN)]
    row.work()
    row.compete()
    # The harness's PostgreSQL keeps what was committed a second ago.
    row.watch(1)
    stage = row.stage
    servers = (stage.metadata_server, stage.guard_server)
    for name in COMPONENTS:
        stage.airflow.process(name).signal_tree(signal.SIGKILL)
    for server in servers:
        server.kill()
    for server in servers:
        server.start()
    for name in COMPONENTS:
        stage.airflow.restart_component(name)
    for run in runs:
        row.ended(run)
    row.until_won()


@scenario(into=SERVICES)
def scheduler_killed_and_restarted(row: Row) -> None:
    """The work outlives its scheduler; the next one may start it again, but not beside itself."""
    run = row.start("plain", seconds=OUTAGE)
    row.work()
    row.compete()
    airflow = row.stage.airflow
    airflow.kill_component("scheduler")
    row.watch(3)
    airflow.restart_component("scheduler")
    row.ended(run)
    row.until_won()
