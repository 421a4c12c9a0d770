"""What DAG files pay: the import of the operators, and parsing DAGs whose tasks are guarded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Figure, figure
from benchmarks.scenarios.fresh_process import said
from benchmarks.stage import Stage, interleaved

IMPORT = "import of the operators"
IMPORT_MEMORY = "import of the operators: memory"
PARSE = "parsing a DAG file: processor time"
PARSE_MEMORY = "parsing a DAG file: memory"
OPERATORS = "guard"
UNGUARDED, TWO_MORE, GUARDED = "unguarded", "unguarded, two tasks more", "guarded"
MODULES = (
    "airflow_rankguard.operators.rankguard",
    "airflow_rankguard.task_group",
    "airflow_rankguard.sensors.rankguard",
)
DAGS = 40
MEGABYTE = 1e6

# Airflow takes as a DAG file what has both words, airflow and dag, in it.
FILE = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, TaskGroup, task
{imports}

@task(retries=2)
def fetched(day):
    return [day]

for number in range({dags}):
    with DAG(f"dag_{{number}}", schedule=None):
        with {group}:
            steps = [fetched.override(task_id=f"fetch_{{step}}")("{{{{ ds }}}}") for step in range(10)]
            steps += [
                BashOperator(task_id=f"load_{{step}}", bash_command="load {{{{ ds }}}}", env={{"A": "b"}}, retries=2)
                for step in range(10)
            ]
            for one, next_one in zip(steps, steps[1:]):
                one >> next_one
{more}
"""
SETUP_AND_TEARDOWN = """
            acquire = BashOperator(task_id="acquire", bash_command="acquire {{ run_id }}", retries=2).as_setup()
            acquire >> steps[0]
            release = BashOperator(task_id="release", bash_command="release {{ run_id }}", retries=2)
            steps[-1] >> release.as_teardown(setups=acquire)
"""
PLAIN_GROUP = 'TaskGroup("group")'
GUARDED_GROUP = 'RankGuardTaskGroup("group", kind="benchmark", resource="{{ run_id }}")'
GUARD_IMPORT = "from airflow_rankguard import RankGuardTaskGroup"
FILES = {
    UNGUARDED: {"imports": "", "group": PLAIN_GROUP, "more": ""},
    TWO_MORE: {"imports": "", "group": PLAIN_GROUP, "more": SETUP_AND_TEARDOWN},
    GUARDED: {"imports": GUARD_IMPORT, "group": GUARDED_GROUP, "more": ""},
}


def play(stage: Stage) -> Iterator[Figure]:
    """Measure the import, then the same DAGs with and without a guard."""
    yield from _imports(stage)
    yield from _parses(stage)


def _imports(stage: Stage) -> Iterator[Figure]:
    memory: list[float] = []

    def work(_name: str, _turn: int) -> Sequence[float]:
        cost = said(stage, "fresh_import.py", *MODULES)
        memory.append(cost["bytes"] / MEGABYTE)
        return [cost["seconds"]]

    work(OPERATORS, 0)  # Python writes its bytecode down
    memory.clear()
    yield figure(IMPORT, OPERATORS, interleaved([OPERATORS], stage.times(15, 2), work)[OPERATORS])
    yield figure(IMPORT_MEMORY, OPERATORS, memory, unit="MB")


def _parses(stage: Stage) -> Iterator[Figure]:
    files = {name: _written(stage.folder, name, DAGS) for name in FILES}
    warming = _written(stage.folder / "warming", UNGUARDED, 1)
    memory: dict[str, list[float]] = defaultdict(list)

    def work(name: str, _turn: int) -> Sequence[float]:
        cost = said(stage, "fresh_parse.py", warming, files[name])
        memory[name].append(cost["bytes"] / MEGABYTE)
        # It waits for nobody; a neighbour on the machine is in the other clock alone.
        return [cost["processor"]]

    for name, seconds in interleaved(list(FILES), stage.times(9, 1), work).items():
        yield figure(PARSE, name, seconds)
        yield figure(PARSE_MEMORY, name, memory[name], unit="MB")


def _written(folder: Path, name: str, dags: int) -> Path:
    file = folder / "dags" / f"{name.replace(', ', '_').replace(' ', '_')}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(FILE.format(dags=dags, **FILES[name]))
    return file
