"""DAGs that a test plays with: it names the key, and the gate at which the work waits."""

from airflow.sdk import DAG, task

from airflow_rankguard import RankGuardTaskGroup, current_guard
from airflow_rankguard.sensors.rankguard import RankGuardSensor
from tests.airflow.gates import wait_at

PARAMS = {"resource": "", "gate": ""}
RESOURCE = "{{ params.resource }}"


@task
def work(gate: str) -> None:
    """Wait at the gate, then look whether the key is still held."""
    wait_at(gate)
    current_guard().assert_held()


with DAG("guarded", schedule=None, params=PARAMS), RankGuardTaskGroup("group", kind="test", resource=RESOURCE):
    work("{{ params.gate }}")

with DAG("two_groups", schedule=None, params=PARAMS):
    with RankGuardTaskGroup("first", kind="test", resource=RESOURCE):
        entered = work("")
        entered >> work("{{ params.gate }}")
    with RankGuardTaskGroup("second", kind="test", resource=RESOURCE, on_conflict="fail") as second:
        work("")
    entered >> second

for dag_id, connection in {"waiting": "rankguard_default", "waiting_in_grace": "rankguard_defaults"}.items():
    with DAG(dag_id, schedule=None, params={"kind": "", "resource": ""}):
        RankGuardSensor(
            task_id="wait",
            kind="{{ params.kind }}",
            resource=RESOURCE,
            rankguard_conn_id=connection,
            poke_interval=1,
            timeout=120,
        )
