"""A process with an Airflow of its own, in which commands run one after another: each alone would load Airflow anew.

It reads requests as lines of JSON, and answers each with one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from tests.cli.ran import Ran

READY = "ready"


class AirflowShell:
    """The caller's side of the process.

    :param process: with its ends of the pipes.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._connections: dict[str, str] = {}

    def connect(self, conn_id: str, connection: Mapping[str, object]) -> None:
        """Let Airflow know a connection."""
        self._connections[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(connection)

    def run(self, *words: object, **environment: str) -> Ran:
        """Run a command line, with some more of Airflow's variables."""
        known = {"words": [str(word) for word in words], "environment": {**self._connections, **environment}}
        return Ran(**self._asked(known))

    def forget_connections(self) -> None:
        """Let Airflow know none."""
        self._connections.clear()

    def add_run(self, dag_id: str, run_id: str, state: str = "running", **conf: object) -> None:
        """Let Airflow have a DagRun."""
        self._asked({"add": {"dag_id": dag_id, "run_id": run_id, "state": state, "conf": conf}})

    def end_runs(self, dag_id: str) -> None:
        """Let Airflow's DagRuns of a DAG be over."""
        self._asked({"end": {"dag_id": dag_id}})

    def add_dag(self, dag_id: str, **params: object) -> None:
        """Let Airflow have a DAG with these params."""
        self._asked({"dag": {"dag_id": dag_id, "params": params}})

    def spoil_dag(self, dag_id: str) -> None:
        """Let Airflow be unable to read what it has of a DAG."""
        self._asked({"spoil": {"dag_id": dag_id}})

    def _asked(self, request: Mapping[str, object]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def opened_shell(home: Path) -> Iterator[AirflowShell]:
    """Start the process and make its Airflow's metadata database, in a folder of its own."""
    own = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    with (home / "shell.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.airflow_shell"],
            env=_inherited() | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline().strip() == READY, (home / "shell.log").read_text()
            yield AirflowShell(process)
            process.stdin.close()


def run_without_metadata(home: Path, connection: Mapping[str, object], *words: str) -> Ran:
    """Run a command in a process of its own, of an Airflow whose metadata database was never made."""
    own = {"AIRFLOW_HOME": str(home), "AIRFLOW_CONN_RANKGUARD_DEFAULT": json.dumps(connection)}
    script = "import sys; from airflow_rankguard.cli.main import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=_inherited() | own,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "RANKGUARD"))}


def _carried_out(request: dict[str, Any]) -> dict[str, object]:
    for verb, carry_out in (("add", _add_run), ("end", _end_runs), ("dag", _add_dag), ("spoil", _spoil_dag)):
        if verb in request:
            with redirect_stdout(sys.stderr):  # Airflow says there what it parses
                carry_out(**request[verb])
            return {}
    from airflow_rankguard.cli.main import main  # noqa: PLC0415 - the caller needs none of it

    os.environ.update(request["environment"])
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(request["words"])
        except SystemExit as wrong:
            code = int(wrong.code or 0)
    for name in request["environment"]:
        del os.environ[name]
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def _add_run(dag_id: str, run_id: str, state: str, conf: dict[str, object]) -> None:
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - the caller needs none of it
    from airflow.utils.session import create_session  # noqa: PLC0415
    from airflow.utils.state import DagRunState  # noqa: PLC0415
    from airflow.utils.types import DagRunTriggeredByType, DagRunType  # noqa: PLC0415

    now = datetime.now(UTC)
    run = DagRun(
        dag_id=dag_id,
        run_id=run_id,
        state=DagRunState(state),
        conf=conf,
        run_type=DagRunType.MANUAL,
        start_date=now,
        run_after=now,
        triggered_by=DagRunTriggeredByType.REST_API,
        triggering_user_name="ada",
    )
    with create_session() as session:
        session.add(run)


def _end_runs(dag_id: str) -> None:
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 - the caller needs none of it
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import update  # noqa: PLC0415

    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.dag_id == dag_id).values(state="failed"))


def _add_dag(dag_id: str, params: dict[str, object]) -> None:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db  # noqa: PLC0415 - the caller needs none of it
    from airflow.models.dagbundle import DagBundleModel  # noqa: PLC0415
    from airflow.sdk import DAG  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415

    folder = Path(os.environ["AIRFLOW_HOME"], "dags")
    folder.mkdir(exist_ok=True)
    bag = DagBag(str(folder), bundle_path=folder, bundle_name="tests")
    with DAG(dag_id, schedule=None, params=params) as dag:
        pass
    dag.fileloc = str(folder / "made.py")
    bag.bag_dag(dag)
    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))
    sync_bag_to_db(bag, "tests", None)


def _spoil_dag(dag_id: str) -> None:
    from airflow.utils.session import create_session  # noqa: PLC0415 - the caller needs none of it
    from sqlalchemy import text  # noqa: PLC0415

    spoilt = json.dumps({"__version": 3, "dag": {"dag_id": dag_id, "timetable": {"__type": "no.such.Timetable"}}})
    with create_session() as session:
        update = text("UPDATE serialized_dag SET data = :data WHERE dag_id = :dag_id")
        session.execute(update, {"data": spoilt, "dag_id": dag_id})


def _serve() -> None:
    from airflow.utils.db import initdb  # noqa: PLC0415 - the caller needs none of it

    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        initdb()
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_carried_out(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
