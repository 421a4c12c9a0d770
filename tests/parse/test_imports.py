"""What an import loads, read from `sys.modules` of a fresh process."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_snippets import blocks

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_rankguard"
# What every DAG file has loaded anyway.
SDK = "from airflow.sdk import DAG, BaseHook, BaseOperator, BaseSensorOperator, TaskGroup, task"
PLUGIN_BASES = "import airflow.plugins_manager, airflow.cli.cli_config"
AT_WORK = [
    *(PACKAGE / "operators").glob("*.py"),
    *(PACKAGE / "sensors").glob("*.py"),
    *(PACKAGE / name for name in ("task_group.py", "fence.py", "holder.py", "links.py")),
]

NEEDED_AT_WORK = ("operators/acquire.py", "operators/release.py", "fence.py")
# But for the outcomes of an acquire that waits.
HEAVY = ("airflow_rankguard.guard", "airflow_rankguard.hooks", "psycopg", "sqlalchemy")


def fresh(code: str, home: Path) -> str:
    """Run code in a process of its own, with an Airflow that has no database and no connection."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "RANKGUARD"))}
    env |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Another driver than the guard's, whose import would not be seen.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql+psycopg2://nobody@127.0.0.1:1/no",
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def loaded_on_top(bases: str, modules: str, home: Path) -> set[str]:
    """The modules that an import adds to what is loaded already."""
    code = f"import json, sys\n{bases}\nbefore = set(sys.modules)\nimport {modules}\n"
    return set(json.loads(fresh(f"{code}print(json.dumps(sorted(set(sys.modules) - before)))", home)))


def foreign(modules: set[str]) -> set[str]:
    """Those that are neither ours, nor the task SDK's, nor of the standard library."""
    at_home = sys.stdlib_module_names | {"airflow_rankguard"}
    return {name for name in modules if name.partition(".")[0] not in at_home and not name.startswith("airflow.sdk.")}


def imported(file: Path) -> Iterator[str]:
    """The modules that a file names in an import, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_operators_and_sensor_add_nothing_to_the_task_sdk(tmp_path: Path) -> None:
    """Parsing a DAG that uses them loads no Alembic, FastAPI, psycopg, PostgreSQL provider, or more SQLAlchemy."""
    ours = "airflow_rankguard.operators.rankguard, airflow_rankguard.operators.rank_check, airflow_rankguard.task_group"
    loaded = loaded_on_top(SDK, f"{ours}, airflow_rankguard.sensors.rankguard", tmp_path)
    assert "airflow_rankguard.operators.rankguard" in loaded
    assert foreign(loaded) == set()


def test_plugin_and_command_line_load_only_the_standard_library(tmp_path: Path) -> None:
    """Airflow imports both in each of its processes; its base classes are there already."""
    loaded = loaded_on_top(PLUGIN_BASES, "airflow_rankguard.plugin, airflow_rankguard.cli.definition", tmp_path)
    assert "airflow_rankguard.cli.definition" in loaded
    assert foreign(loaded) == set()


def test_the_package_root_is_lazy(tmp_path: Path) -> None:
    """Importing it loads nothing, not even Airflow; its public names appear when they are asked for."""
    loaded = loaded_on_top("", "airflow_rankguard", tmp_path)
    assert {name for name in loaded if name.startswith(("airflow", "sqlalchemy"))} == {"airflow_rankguard"}
    code = "import airflow_rankguard as root\nprint([name for name in root.HOMES if not getattr(root, name)])"
    assert fresh(code, tmp_path) == "[]"


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    """As with any module."""
    import airflow_rankguard  # noqa: PLC0415

    with pytest.raises(AttributeError, match="no attribute 'Guard'"):
        airflow_rankguard.Guard  # noqa: B018


@pytest.mark.parametrize("file", AT_WORK, ids=lambda file: file.stem)
def test_a_task_never_reaches_for_airflows_database(file: Path) -> None:
    """Neither at import nor at work: of Airflow only the task SDK, and its clock's trigger, is used in a task."""
    airflows = {name for name in imported(file) if name.partition(".")[0] == "airflow"}
    allowed = ("airflow.sdk.", "airflow.providers.standard.triggers.temporal.")
    assert {name for name in airflows if not f"{name}.".startswith(allowed)} == set()


def test_what_is_imported_before_the_fork_is_all_that_a_guarded_task_imports(tmp_path: Path) -> None:
    """After the lines that docs/celery.md gives, an acquire, a fence and a release load nothing heavy any more."""
    [ahead] = [code for page, code in blocks("python") if page == "celery.md"]
    names = sorted(
        {name for file in NEEDED_AT_WORK for name in imported(PACKAGE / file) if name.startswith("airflow_rank")}
    )
    at_work = f"""{", ".join(names)}
from airflow_rankguard.guard.engines import create_guard_engine
create_guard_engine("postgresql://nobody@127.0.0.1:1/no")
"""
    loaded = loaded_on_top(f"{SDK}\n{ahead}\nimport airflow_rankguard.task_group", at_work, tmp_path)
    assert {name for name in loaded if name.startswith(HEAVY)} == set()


def test_the_shipped_dags_parse_alone(tmp_path: Path) -> None:
    """Without any connection or database."""
    code = f"""
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({str(ROOT / "dags")!r}, load_op_links=False)
print(sorted(bag.dag_ids), bag.import_errors)
"""
    names = sorted(file.stem for file in (ROOT / "dags").glob("*.py"))
    assert fresh(code, tmp_path) == f"{names} {{}}"
