"""The command line itself: wrong words, help, where the database is, and the two ways in."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_rankguard.cli.commands import RANKGUARD, Group, Verb
from airflow_rankguard.cli.exit_codes import MEANINGS
from tests.cli.ran import Ran
from tests.databases import Database

Run = Callable[..., Ran]
RUN_ID = "00000000-0000-0000-0000-000000000001"
IN_PROCESS = "import sys; from airflow_rankguard.cli.main import main; sys.exit(main())"
HEAVY = ("airflow.models", "airflow.settings", "alembic", "fastapi", "psycopg", "sqlalchemy")


def _verbs(group: Group, *before: str) -> list[tuple[tuple[str, ...], Verb]]:
    found = []
    for member in group.members:
        if isinstance(member, Group):
            found += _verbs(member, *before, member.name)
        else:
            found.append(((*before, member.name), member))
    return found


@pytest.mark.parametrize("words", [words for words, _ in _verbs(RANKGUARD)], ids=" ".join)
def test_every_help_documents_the_exit_codes(words: tuple[str, ...], run: Run) -> None:
    """Who writes a script finds the codes where the verb is explained."""
    helped = run(*words, "--help")
    assert helped.code == 0
    assert all(f"{code.value:<3}  {meaning}" in helped.out for code, meaning in MEANINGS.items())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "COMMAND"),
        (["db"], "COMMAND"),
        (["release", RUN_ID], "--reason"),
        (["release", RUN_ID, "--reason", "  "], "--reason: it is empty"),
        (["release", "r1", "--reason", "x"], "'r1' is not the id of a guarded run"),
        (["release", RUN_ID, "--reason", "x", "--now", "--wait", "1s"], "--now does not wait"),
        (["prune"], "--older-than"),
        (["prune", "--older-than", "90"], "'90' is not a length of time"),
        (["prune", "--older-than", "999999999w"], "is not a length of time"),
        (["events", "--event", "acquired"], "invalid choice: 'acquired'"),
        (["prune", "--older-than", "1d", "--batch", "0"], "'0' is not a whole number from 1"),
        (["list", "--output", "xml"], "invalid choice: 'xml'"),
        (["list", "--url", "nonsense"], "cannot read the URL"),
        (["list", "--url", "mysql://host/name"], "PostgreSQL or SQLite, not 'mysql'"),
        (["list", "--url", "sqlite://"], "must be a file"),
        (["list", "--url", "sqlite:///x", "--conn-id", "y"], "name two databases"),
        (["list", "--conn-id", "x", "--schema", "guard"], "--schema and --deployment go with --url"),
        (["config", "add", "a", "--domain", "a.nl", "--location", "1", "--language", "nl", "--depth", "7"], "depth"),
        (["config", "import", "a", "no-such-file.csv", "--url", "sqlite:///x"], "cannot be read"),
    ],
)
def test_wrong_words(words: list[str], said: str, run: Run) -> None:
    """A command line that cannot be right ends with the code for it and says what is wrong, before anything is done."""
    refused = run(*words)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


@pytest.mark.parametrize("verb", [verb for _, verb in _verbs(RANKGUARD)], ids=lambda verb: verb.home)
def test_every_verb_speaks_to_people_and_machines(verb: Verb) -> None:
    """Tables, JSON and YAML are the choice of each verb, tables where nobody chooses."""
    (output,) = [option for option in verb.options if "--output" in option.flags]
    assert output.settings["choices"][:3] == ("table", "json", "yaml")
    assert output.settings["default"] == "table"


def test_a_password_is_never_repeated(run: Run) -> None:
    """A URL that is refused is not printed: it may hold a password."""
    assert "secret" not in run("list", "--url", "mysql://me:secret@host/name").err
    assert "secret" not in run("list", "--url", "me:secret@host").err


@pytest.mark.backends("sqlite")
def test_the_url_may_come_from_the_environment(run: Run, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """RANKGUARD_URL says where the database is when the command line does not."""
    monkeypatch.setenv("RANKGUARD_URL", database.task_url.render_as_string(hide_password=False))
    assert run("db", "check").code == 0


@pytest.mark.backends("sqlite")
def test_without_airflow_none_is_imported(database: Database) -> None:
    """With a URL the console script works as a process of its own and loads no part of Airflow."""
    script = (
        "import sys; from airflow_rankguard.cli.main import main; code = main(); "
        "print([name for name in sys.modules if name.split('.')[0] == 'airflow'], file=sys.stderr); sys.exit(code)"
    )
    url = database.task_url.render_as_string(hide_password=False)
    ended = _process([sys.executable, "-c", script, "list", "--output", "json", "--url", url])
    assert (ended.returncode, json.loads(ended.stdout), ended.stderr) == (0, [], "[]\n")


@pytest.mark.backends("sqlite")
def test_airflow_offers_the_same_verbs(database: Database, tmp_path: Path) -> None:
    """`airflow rankguard` is the same command line; it goes by the Airflow connection and passes the exit code on."""
    file = str(database.task_url.database)
    environment = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW_CONN_RANKGUARD_DEFAULT": json.dumps({"conn_type": "sqlite", "host": file}),
    }
    right = _process([sys.executable, "-m", "airflow", "rankguard", "db", "check"], **environment)
    assert right.returncode == 0, right.stderr
    assert "its index is right" in right.stdout
    wrong = _process([sys.executable, "-m", "airflow", "rankguard", "show", RUN_ID], **environment)
    assert wrong.returncode == 1
    assert f"there is no guarded run {RUN_ID}" in wrong.stderr


def test_a_missing_connection_is_named(tmp_path: Path) -> None:
    """A connection id that Airflow does not know is the command line's fault, in one sentence and with its mend."""
    ended = _process(
        [sys.executable, "-c", IN_PROCESS, "list", "--conn-id", "no_such_connection"],
        AIRFLOW_HOME=str(tmp_path / "airflow"),
    )
    assert ended.returncode == 2
    said = ended.stderr.splitlines()[-1]
    assert said.startswith("rankguard: ")
    assert said.endswith("isn't defined. Set AIRFLOW_CONN_NO_SUCH_CONNECTION in this terminal, or give --url.")


def test_a_missing_file_is_told_with_its_mend(run: Run, tmp_path: Path) -> None:
    """In the doctor's words; and who only looks is not told what was not taken."""
    missing = run("list", "--url", f"sqlite:///{tmp_path}/guard.db")
    assert missing == Ran(
        3,
        "",
        "rankguard: The guard database cannot be used: unable to open database file. Create the file by `rankguard db"
        " upgrade`, or correct its path and let this user write there.\n",
    )


def test_a_server_that_is_down_has_no_mend_of_a_file(run: Run, tmp_path: Path) -> None:
    """Whatever word of it stands in the way to the server."""
    down = run("list", "--url", f"postgresql://me@/app?host={tmp_path}/locked")
    assert down.code == 3
    assert "/locked/.s.PGSQL" in down.err
    assert down.err.endswith("No such file or directory.\n")


def test_the_definition_is_light() -> None:
    """Airflow imports the definition with every command: nothing heavier than Airflow's own comes along."""
    script = (
        "import sys, airflow.cli.cli_config; before = set(sys.modules); "
        "from airflow_rankguard.cli.definition import get_rankguard_cli_commands; get_rankguard_cli_commands(); "
        "print(*sorted(set(sys.modules) - before), sep='\\n')"
    )
    ended = _process([sys.executable, "-c", script])
    assert ended.returncode == 0, ended.stderr
    loaded = ended.stdout.splitlines()
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def _process(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "RANKGUARD"))}
    return subprocess.run(
        command, env={**inherited, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
