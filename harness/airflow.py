"""One real Airflow on loopback: by itself a scheduler with LocalExecutor, API server, dag processor and triggerer."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.ports import LOOPBACK, free_port
from harness.processes import WardedProcess
from harness.rest import AirflowRest
from harness.settings import environment

# The API server first: it takes the longest to start.
COMPONENTS: Mapping[str, Sequence[str]] = {
    "api_server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
    "dag_processor": ["dag-processor"],
}
# A loaded machine takes long to start half a dozen processes.
HEALTH_TIMEOUT = 240.0


class LocalAirflow:
    """A running Airflow with a home of its own, as a context manager.

    All its processes end with this one, also after SIGKILL.

    Parameters:
        home: AIRFLOW_HOME; made when it is not there.
        dags_folder: folder with the DAG files.
        metadata_url: SQLAlchemy URL of the metadata database; SQLite in the home when None.
        env: variables that win over everything else, for example `AIRFLOW__CORE__PARALLELISM`.
        connections: connection id to URI.
        components: name of each process to the arguments of `airflow` that start it.
        port: TCP port of the API server; a free one when None.
        user: name of the one administrator.
        password: the administrator's password.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        *,
        metadata_url: str | None = None,
        env: Mapping[str, str] | None = None,
        connections: Mapping[str, str] | None = None,
        components: Mapping[str, Sequence[str]] = COMPONENTS,
        port: int | None = None,
        user: str = "admin",
        password: str = "admin",
    ) -> None:
        self.home = home
        port = port or free_port()
        self.url = f"http://{LOOPBACK}:{port}"
        self._passwords_file = home / "passwords.json"
        self._password_of = {user: password}
        self.env = environment(
            home=home,
            dags_folder=dags_folder,
            port=port,
            passwords_file=self._passwords_file,
            user=user,
            metadata_url=metadata_url,
            connections=connections or {},
        ) | dict(env or {})
        self.rest = AirflowRest(self.url, user=user, password=password)
        self._components = components
        self._processes: dict[str, list[WardedProcess]] = {name: [] for name in components}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.rest.close()

    def start(self) -> None:
        """Migrate the metadata database, start the components and wait until Airflow calls them healthy.

        Raises:
            ChildProcessError: the migration failed or a component ended; the message names its log.
            TimeoutError: not healthy within four minutes.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._passwords_file.write_text(json.dumps(self._password_of))
        self.cli("db", "migrate")
        for name in self._components:
            self._launch(name)
        self._wait_healthy(*self._components)

    def stop(self) -> None:
        """End every process of this Airflow; running tasks are killed after two seconds."""
        processes = [process for launched in self._processes.values() for process in launched]
        for process in processes:
            process.ask_to_stop()
        for process in processes:
            process.stop()
        self._processes = {name: [] for name in self._components}

    def cli(self, *arguments: str) -> str:
        """Run `airflow ...` with this Airflow's settings.

        Returns:
            What it printed to standard output.

        Raises:
            ChildProcessError: it ended with an error; the message carries its output.
        """
        result = subprocess.run(
            _airflow(*arguments),
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise ChildProcessError(f"airflow {' '.join(arguments)}:\n{result.stdout}{result.stderr}")
        return result.stdout

    def log(self, name: str) -> Path:
        """Give the file with a component's output."""
        return self.home / f"{name}.log"

    def process(self, name: str) -> WardedProcess:
        """Give the newest process of a component."""
        return self._processes[name][-1]

    def kill_component(self, name: str) -> None:
        """SIGKILL a component; the tasks it started live on, as after a crash."""
        self.process(name).kill()

    def kill_machine(self, name: str) -> None:
        """SIGKILL a component and all that it started, as when its machine loses power."""
        process = self.process(name)
        process.signal_tree(signal.SIGKILL)
        process.stop()

    def freeze_component(self, name: str) -> None:
        """SIGSTOP everything of a component: it holds its connections and answers nobody."""
        self.process(name).signal_tree(signal.SIGSTOP)

    def thaw_component(self, name: str) -> None:
        """Let a frozen component go on."""
        self.process(name).signal_tree(signal.SIGCONT)

    def restart_component(self, name: str) -> None:
        """Start a component again after `kill_component` and wait until it is healthy."""
        self._launch(name)
        self._wait_healthy(name)

    def _launch(self, name: str) -> None:
        process = WardedProcess(_airflow(*self._components[name]), log=self.log(name), env=self.env)
        self._processes[name].append(process)

    def _wait_healthy(self, *names: str) -> None:
        since = datetime.now(UTC)
        deadline = time.monotonic() + HEALTH_TIMEOUT
        while not self.rest.healthy(names, since=since):
            for name in names:
                if not self.process(name).alive:
                    raise ChildProcessError(f"{name} ended while starting: see {self.log(name)}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{', '.join(names)} not healthy after {HEALTH_TIMEOUT:.0f} s")
            time.sleep(0.1)


def _airflow(*arguments: str) -> list[str]:
    # The script, not `-m airflow`: that would put the current folder on Airflow's import path.
    return [str(Path(sys.executable).with_name("airflow")), *arguments]
