"""The processes and settings of an Airflow on several machines: two schedulers, and two Celery workers over Redis."""

from collections.abc import Mapping, Sequence

from harness.airflow import COMPONENTS
from harness.settings import variable

SCHEDULERS = ("scheduler", "second_scheduler")
WORKERS = ("worker", "second_worker")


def components(*, slots: int) -> dict[str, Sequence[str]]:
    """Name the components and the arguments of `airflow` that start them.

    Parameters:
        slots: tasks that one worker runs at a time.

    Returns:
        For `LocalAirflow`.
    """
    # The workers share one log folder, which the API server reads.
    worker = ["celery", "worker", "--skip-serve-logs", f"--concurrency={slots}"]
    return (
        dict(COMPONENTS)
        | dict.fromkeys(SCHEDULERS, COMPONENTS["scheduler"])
        | {name: [*worker, f"--celery-hostname={name}"] for name in WORKERS}
    )


def environment(broker_url: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Name the variables that make these components one Airflow.

    Parameters:
        broker_url: where schedulers and workers meet.
        settings: more settings, each as `section.key`.

    Returns:
        For `LocalAirflow`.
    """
    own = {
        "core.executor": "CeleryExecutor",
        "celery.broker_url": broker_url,
        # A loaded machine takes longer than the default second to hand a task over.
        "celery.operation_timeout": "30",
    }
    return {variable(name): value for name, value in (own | dict(settings)).items()}
