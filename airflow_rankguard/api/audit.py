"""Airflow's audit log: what somebody asked for, written before it is done."""

from __future__ import annotations

import json
from typing import Any

from airflow.models.log import Log
from airflow.utils.session import create_session


def note(event: str, *, by: str, dag_id: str, run_id: str, asked: dict[str, Any]) -> None:
    """Write who asked for what, under the DAG that it is about; when that fails, nothing may be done.

    Airflow's own ``action_logging`` would file it under no DAG, where all who may read the log see it.
    """
    with create_session() as session:
        entry = Log(event=event, owner=by, owner_display_name=by, extra=json.dumps(asked), dag_id=dag_id, run_id=run_id)
        session.add(entry)
