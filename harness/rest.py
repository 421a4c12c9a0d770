"""A small client of Airflow's public REST API."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from harness.runs import Run, TaskRun

FINISHED = ("success", "failed")
POLL = 0.1


INNER_ERROR = 500


class RestError(Exception):
    """Airflow refused a request.

    Parameters:
        status: HTTP status code.
        text: body of the answer.
    """

    def __init__(self, request: str, status: int, text: str) -> None:
        super().__init__(f"{request}: {status} {text}")
        self.status = status
        self.text = text


class AirflowRest:
    """Speaks to one API server as one user of the simple auth manager.

    Every method raises `RestError` when Airflow refuses and `httpx.TransportError` when nobody answers.
    """

    def __init__(self, url: str, *, user: str, password: str) -> None:
        self._login = {"username": user, "password": password}
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def call(self, method: str, path: str, body: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Send one request below /api/v2, logging in first when needed.

        An inner error is tried again: Airflow on SQLite answers so when its metadata database is locked.

        Returns:
            The answer's JSON; None when it is empty.
        """
        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, RestError) and error.status == INNER_ERROR),
            stop=stop_after_attempt(5),
            wait=wait_fixed(1),
            reraise=True,
        )
        return retrying(self._call, method, path, body, params)

    def _call(self, method: str, path: str, body: Any, params: Mapping[str, Any] | None) -> Any:
        if "Authorization" not in self._client.headers:
            token = self._answer(self._client.post("/auth/token", json=self._login))["access_token"]
            self._client.headers["Authorization"] = f"Bearer {token}"
        return self._answer(self._client.request(method, f"/api/v2{path}", json=body, params=params))

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        if response.is_error:
            request = f"{response.request.method} {response.request.url}"
            raise RestError(request, response.status_code, response.text)
        return response.json() if response.content else None

    def healthy(self, components: Collection[str], *, since: datetime) -> bool:
        """Say whether the metadata database and these components are healthy, by heartbeats after `since`."""
        try:
            health = self._answer(self._client.get("/api/v2/monitor/health"))
            # Its first answer takes seconds: better now than inside the first task.
            self._answer(self._client.get("/execution/health"))
        except (RestError, httpx.TransportError):
            return False
        return health["metadatabase"]["status"] == "healthy" and all(
            _beats(health[name], f"latest_{name}_heartbeat", since) for name in components if name in health
        )

    def wait_for_dag(self, dag_id: str, *, timeout: float = 30) -> None:
        """Wait until a DAG is parsed.

        Raises:
            TimeoutError: not parsed in `timeout` seconds; the message carries the import errors.
        """
        for _ in _looks(timeout):
            try:
                self.call("GET", f"/dags/{dag_id}")
                return
            except RestError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        raise TimeoutError(f"no DAG {dag_id} after {timeout} s: {self.import_errors()}")

    def import_errors(self) -> dict[str, str]:
        """Map the file name of each broken DAG file to its stack trace."""
        errors = self.call("GET", "/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def pause(self, dag_id: str, *, paused: bool = True) -> None:
        """Pause a DAG, or let it go on."""
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": paused})

    def trigger(
        self,
        dag_id: str,
        *,
        conf: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        logical_date: datetime | None = None,
    ) -> Run:
        """Start a run as the trigger button does."""
        date = logical_date.isoformat() if logical_date else None
        body = {"dag_run_id": run_id, "conf": dict(conf or {}), "logical_date": date}
        return Run.from_json(self.call("POST", f"/dags/{dag_id}/dagRuns", body))

    def run(self, dag_id: str, run_id: str) -> Run:
        """Read a run again."""
        return Run.from_json(self.call("GET", _path(dag_id, run_id)))

    def runs(self, dag_id: str) -> list[Run]:
        """List the runs of a DAG, oldest first."""
        found = self.call("GET", f"/dags/{dag_id}/dagRuns", params={"order_by": "run_after", "limit": 100})
        return [Run.from_json(run) for run in found["dag_runs"]]

    def mark(self, run: Run, state: str) -> None:
        """Mark a run success, failed or queued."""
        self.call("PATCH", _path(run.dag_id, run.run_id), {"state": state})

    def mark_task(self, run: Run, task_id: str, state: str, *, map_index: int = -1) -> None:
        """Mark one task instance success, failed or skipped."""
        index = "" if map_index < 0 else f"/{map_index}"
        path = f"{_path(run.dag_id, run.run_id)}/taskInstances/{task_id}{index}"
        self.call("PATCH", path, {"new_state": state})

    def clear(self, run: Run, *, only_failed: bool = False) -> None:
        """Clear the tasks of a run, as the Clear Run dialog does."""
        self.call("POST", f"{_path(run.dag_id, run.run_id)}/clear", {"dry_run": False, "only_failed": only_failed})

    def clear_tasks(self, run: Run, task_ids: Sequence[str | tuple[str, int]], *, only_failed: bool = False) -> None:
        """Clear task instances of a run, each by id or by (id, map index)."""
        body = {
            "dag_run_id": run.run_id,
            "task_ids": list(task_ids),
            "only_failed": only_failed,
            "dry_run": False,
        }
        self.call("POST", f"/dags/{run.dag_id}/clearTaskInstances", body)

    def delete(self, run: Run) -> None:
        """Delete a run; Airflow refuses with 409 while it runs."""
        self.call("DELETE", _path(run.dag_id, run.run_id))

    def tasks(self, run: Run) -> list[TaskRun]:
        """List the task instances of a run."""
        found = self.call("GET", f"{_path(run.dag_id, run.run_id)}/taskInstances", params={"limit": 100})
        return [TaskRun.from_json(task) for task in found["task_instances"]]

    def states(self, run: Run) -> dict[str, str | None]:
        """Map each task to its state; a mapped one is named `id[index]`."""
        return {task.name: task.state for task in self.tasks(run)}

    def task_log(self, run: Run, task_id: str, *, try_number: int = 1, map_index: int = -1) -> str:
        """Read the log of one try of a task, one event per line."""
        path = f"{_path(run.dag_id, run.run_id)}/taskInstances/{task_id}/logs/{try_number}"
        params = {"map_index": map_index, "full_content": True}
        events = self.call("GET", path, params=params)["content"]
        return "\n".join(event if isinstance(event, str) else event["event"] for event in events)

    def xcom(self, run: Run, task_id: str, key: str = "return_value", *, map_index: int = -1) -> Any:
        """Read one XCom value."""
        path = f"{_path(run.dag_id, run.run_id)}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.call("GET", path, params={"map_index": map_index, "deserialize": True})["value"]

    def backfill(
        self,
        dag_id: str,
        start: datetime,
        end: datetime,
        *,
        max_active_runs: int = 10,
        backwards: bool = False,
    ) -> int:
        """Start a backfill over the scheduled dates from `start` to `end`.

        Returns:
            The id of the backfill.
        """
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "max_active_runs": max_active_runs,
            "run_backwards": backwards,
        }
        backfill_id: int = self.call("POST", "/backfills", body)["id"]
        return backfill_id

    def asset_event(self, name: str, extra: Mapping[str, Any] | None = None) -> None:
        """Record an event of an asset, as the Create Asset Event button does."""
        assets = self.call("GET", "/assets", params={"name_pattern": name})["assets"]
        asset_id = next(asset["id"] for asset in assets if asset["name"] == name)
        self.call("POST", "/assets/events", {"asset_id": asset_id, "extra": dict(extra or {})})

    def wait_for(self, run: Run, states: Collection[str] = FINISHED, *, timeout: float = 60) -> Run:
        """Wait until a run is in one of these states, also while the API server is away.

        Returns:
            The run as it is then.

        Raises:
            TimeoutError: not in `timeout` seconds; the message carries the states of its tasks.
        """
        for _ in _looks(timeout):
            with suppress(httpx.TransportError):
                seen = self.run(run.dag_id, run.run_id)
                if seen.state in states:
                    return seen
        raise TimeoutError(f"{run.run_id} is not {states} after {timeout} s: {self.states(run)}")

    def wait_for_task(
        self, run: Run, task_id: str, states: Collection[str], *, map_index: int = -1, timeout: float = 60
    ) -> TaskRun:
        """Wait until a task instance is in one of these states, also while the API server is away.

        Returns:
            The task instance as it is then.

        Raises:
            TimeoutError: not in `timeout` seconds; the message carries the states of the run's tasks.
        """
        for _ in _looks(timeout):
            with suppress(httpx.TransportError):
                for task in self.tasks(run):
                    if (task.task_id, task.map_index) == (task_id, map_index) and task.state in states:
                        return task
        raise TimeoutError(f"{task_id} is not {states} after {timeout} s: {self.states(run)}")


def _looks(timeout: float) -> Iterator[None]:
    """Give the caller a look, and another after each pause, until the time is over."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL)


def _path(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"


def _beats(component: Mapping[str, str | None], heartbeat: str, since: datetime) -> bool:
    latest = component[heartbeat]
    return component["status"] == "healthy" and latest is not None and datetime.fromisoformat(latest) > since
