"""Airflow's simple auth manager, and users whose rights end at some DAGs, as those of other auth managers do."""

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

ONLY = {"ann": {"open"}, "olga": {"open", "closed", "paused"}, "nobody": set[str]()}
"""Users who have their role's rights on these DAGs alone; `olga` on all that there are."""
ALL_BUT = {"mia": "closed"}
"""Users who have them on any DAG but this one."""
KEEPS = {"viv": {"open"}}
"""Users who read any DAG's runs, and have the other rights on these DAGs alone."""
NO_RUNS = "dora"
"""May read every DAG and no DAG's runs."""


class SomeDags(SimpleAuthManager):
    """Grants what the role grants, within these bounds."""

    def is_authorized_dag(
        self,
        *,
        method: Any,
        user: SimpleAuthManagerUser,
        access_entity: Any = None,
        details: Any = None,
    ) -> bool:
        name, dag_id = user.username, details and details.id
        if name == NO_RUNS and access_entity is DagAccessEntity.RUN:
            return False
        if name in ONLY and dag_id not in ONLY[name]:
            return False
        if name in KEEPS and method != "GET" and dag_id not in KEEPS[name]:
            return False
        if name in ALL_BUT and dag_id == ALL_BUT[name]:
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
