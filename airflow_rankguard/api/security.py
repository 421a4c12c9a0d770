"""Who asks, and what Airflow's auth manager lets it see and do. Without a login nothing is answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, Request
from sqlalchemy import select

from airflow_rankguard.api.connecting import Place, Places
from airflow_rankguard.api.problems import Problem
from airflow_rankguard.guard.store.sights import Sight
from airflow_rankguard.guard.values import Owner

HEADER = "X-Rankguard-Request"
FROM_HERE = (None, "same-origin", "none")
NO_DAG = "no DAG has this id"
"""With spaces, which Airflow allows in no DAG's id: who may see its runs has that right on any DAG whatsoever."""

Right = Literal["GET", "POST", "PUT"]

logged_in = get_user


def sent_from_here(request: Request) -> None:
    """Let no other site's page make a browser change anything: it can send the cookie along, but not this header.

    :raises Problem: the header is missing, or the browser says that another site sent the request.
    """
    if request.method == "GET":
        return
    if request.headers.get(HEADER) != "1":
        raise Problem("not-from-this-site", f"The header {HEADER}: 1 is missing.")
    if request.headers.get("Sec-Fetch-Site") not in FROM_HERE:
        raise Problem("not-from-this-site", "Another site's page has sent this request.")


@dataclass(frozen=True)
class Caller:
    """Who asks. Rights are looked up once per request, and never kept for the next."""

    user: BaseUser
    place: Place

    @property
    def name(self) -> str:
        """Its name in Airflow."""
        return self.user.get_name()

    @cached_property
    def sight(self) -> Sight:
        """Whose rows it may see.

        All, where it may read the runs of every DAG that there is and of any other, too; else those of the DAGs whose
        runs it may read. Only the former shows the rows of DAGs that this Airflow does not have.
        """
        return Sight(deployment=self.place.deployment, dag_ids=None if self._sees_all else self._readable)

    def may(self, right: Right, owner: Owner) -> bool:
        """Say whether it sees an owner's rows and has a right on the runs of its DAG."""
        return self.sight.covers(owner) and self._may(right, owner.dag_id if self.knows(owner) else NO_DAG)

    def may_start(self, dag_id: str) -> bool:
        """Say whether it may trigger a DAG."""
        return self._may("POST", dag_id)

    def knows(self, owner: Owner) -> bool:
        """Say whether an owner's DAG is one of this Airflow's, as far as the caller may know."""
        return owner.deployment == self.place.deployment and owner.dag_id in self._readable

    @cached_property
    def _sees_all(self) -> bool:
        return self._may("GET", NO_DAG) and self._readable >= self._existing

    @cached_property
    def _readable(self) -> frozenset[str]:
        listed = get_auth_manager().get_authorized_dag_ids(user=self.user, method="GET")
        if self._may("GET", NO_DAG):
            return frozenset(listed)
        teams = DagModel.get_dag_id_to_team_name_mapping(sorted(listed))
        return frozenset(dag_id for dag_id in listed if self._has_right("GET", dag_id, teams.get(dag_id)))

    @cached_property
    def _existing(self) -> frozenset[str]:
        with create_session() as session:
            return frozenset(session.scalars(select(DagModel.dag_id)))

    @cached_property
    def _answers(self) -> dict[tuple[Right, str], bool]:
        return {}

    def _may(self, right: Right, dag_id: str) -> bool:
        asked = (right, dag_id)
        if asked not in self._answers:
            self._answers[asked] = self._has_right(right, dag_id, DagModel.get_team_name(dag_id))
        return self._answers[asked]

    def _has_right(self, right: Right, dag_id: str, team: str | None) -> bool:
        return get_auth_manager().is_authorized_dag(
            method=right,
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id, team_name=team),
            user=self.user,
        )


PLACES = Places()


def caller(user: GetUserDep) -> Caller:
    """Say who asks.

    :raises Problem: the guard database is not there to be asked about.
    """
    return Caller(user=user, place=PLACES.find())


CallerDep = Annotated[Caller, Depends(caller)]
