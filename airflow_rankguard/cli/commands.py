"""The verbs as data, so that ``rankguard`` and ``airflow rankguard`` are one command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_rankguard.cli import arguments
from airflow_rankguard.cli.exit_codes import EPILOG
from airflow_rankguard.settings import DEFAULT_CONN_ID


@dataclass(frozen=True, slots=True)
class Option:
    """An argument, in argparse's words."""

    flags: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """A command.

    :param home: the module and function that carry it out, imported only then.
    """

    name: str
    help: str
    home: str
    options: tuple[Option, ...] = ()
    epilog: str = EPILOG


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Commands under one name."""

    name: str
    help: str
    members: tuple[Verb | Group, ...]
    epilog: str = EPILOG


def _option(*flags: str, **settings: Any) -> Option:
    return Option(flags, settings)


URL_VARIABLE = "RANKGUARD_URL"

PLACE = (
    _option("--conn-id", help=f"Airflow connection of the guard database (default: {DEFAULT_CONN_ID})"),
    _option("--url", help=f"SQLAlchemy URL of the guard database; no Airflow is asked then (default: {URL_VARIABLE})"),
    _option("--schema", help="with --url: the PostgreSQL schema of the guard's tables"),
    _option("--deployment", help="with --url: the name of the Airflow whose runs are meant"),
)
RUN_ID = _option("run_id", metavar="RUN_ID", type=arguments.guarded_run_id, help="id of a guarded run")
KEY_PARTS = (
    _option("--kind", help="only this kind of key"),
    _option("--resource", help="only this resource"),
    _option("--tenant", help="only this tenant"),
)
LIMIT = _option("--limit", type=arguments.positive, default=100, help="how many at most (default: 100)")
EVENTS = ("refused", "reclaimed", "forced", "lost", "re-entered")
CONFIG = _option("config", metavar="CONFIG", help="id of a rank config")
OUTPUTS = ("table", "json", "yaml")


def _verb(name: str, about: str, home: str, *options: Option, outputs: tuple[str, ...] = OUTPUTS) -> Verb:
    output = _option("--output", choices=outputs, default="table", help="for people or for machines (default: table)")
    return Verb(name=name, help=about, home=f"airflow_rankguard.cli.{home}", options=(*options, *PLACE, output))


DB = Group(
    name="db",
    help="the guard's tables",
    members=(
        _verb(
            "upgrade",
            "create or upgrade the tables, and rebuild the index that is the lock where it is not right",
            "database:upgrade",
            _option(
                "--resolve", choices=("keep-newest",), help="mark all but the newest of several active runs failed"
            ),
        ),
        _verb(
            "downgrade",
            "take the tables back to an older version; base drops them",
            "database:downgrade",
            _option("--to", metavar="REVISION", default="base", help="a version of the schema (default: base)"),
            _option("--yes", action="store_true", help="yes, drop what the tables hold"),
        ),
        _verb("current", "show the version of the tables", "database:current"),
        _verb("check", "look whether the database can keep the promise", "database:check"),
        _verb(
            "rename-deployment",
            "give all runs of a deployment another name, as its connection then has it",
            "database:rename_deployment",
            _option("old", metavar="OLD", type=arguments.words, help="the name in the database"),
            _option("new", metavar="NEW", type=arguments.words, help="the name from now on"),
        ),
    ),
)

ADOPT = _verb(
    "adopt",
    "write rows for DagRuns that were active before the guard was switched on",
    "adopting:adopt",
    _option("dag_id", metavar="DAG_ID", type=arguments.words, help="whose runs"),
    _option(
        "dag_run_id",
        metavar="DAG_RUN_ID",
        nargs="?",
        type=arguments.words,
        help="only this run (default: all that are queued or running)",
    ),
    _option("--kind", required=True, help="the key's kind"),
    _option("--resource", help="the key's resource"),
    _option(
        "--conf-field",
        metavar="FIELD",
        help="take the resource from this field of each run's conf, or from the DAG's param of that name",
    ),
    _option("--tenant", default="", help="the key's tenant"),
    _option("--by", metavar="NAME", type=arguments.words, help="who does it; kept (default: your user name)"),
    _option("--dry-run", action="store_true", help="only say what would become of each"),
)

RUNS = (
    _verb(
        "list",
        "list guarded runs, newest first, or who waits",
        "runs:list_runs",
        _option("--active", action="store_true", default=None, help="only those that hold their key"),
        _option(
            "--waiting", action="store_true", help="those who wait for a key: place in line, since when, behind whom"
        ),
        *KEY_PARTS,
        _option("--dag", dest="dag_id", metavar="DAG_ID", help="only runs of this DAG"),
        _option(
            "--older-than",
            type=arguments.duration,
            help="only those claimed longer ago, such as 2h: with --active those held longer, with --waiting those who"
            " wait longer",
        ),
        LIMIT,
    ),
    _verb(
        "events",
        "list refusals, reclaims, forced ends, losses and re-entries, newest first",
        "events:events",
        *KEY_PARTS,
        _option("--dag", dest="dag_id", metavar="DAG_ID", help="only what happened to runs of this DAG"),
        _option("--event", choices=EVENTS, help="only this"),
        _option("--since", type=arguments.duration, help="how far back, such as 24h (default: all)"),
        LIMIT,
    ),
    _verb("show", "show a guarded run, who is inside, and what happened to it", "runs:show", RUN_ID),
    _verb(
        "release",
        "free a key by hand: its holder's next guarded task is lost, and those inside are waited for",
        "runs:release",
        RUN_ID,
        _option("--reason", required=True, type=arguments.words, help="why; kept with the run"),
        _option("--by", metavar="NAME", type=arguments.words, help="who does it; kept (default: your user name)"),
        _option(
            "--even-if-alive",
            action="store_true",
            help="free the key of a holder that is alive, or may be: no Airflow says otherwise, or it is another's",
        ),
        _option("--now", action="store_true", help="do not wait; work may then overlap with the next holder's"),
        _option("--wait", type=arguments.duration, help="how long to wait at most, such as 90s (default: 10m)"),
    ),
    _verb(
        "sweep",
        "judge each active run and reclaim the stale ones",
        "runs:sweep",
        _option("--dry-run", action="store_true", help="only judge"),
    ),
    _verb(
        "prune",
        "delete old history, never an active run nor the newest of a key",
        "runs:prune",
        _option("--older-than", required=True, type=arguments.duration, help="a length of time, such as 90d"),
        _option("--batch", type=arguments.positive, default=1000, help="rows per transaction (default: 1000)"),
    ),
)

CONFIGS = Group(
    name="config",
    help="rank configs and their keywords",
    members=(
        _verb(
            "add",
            "add a rank config",
            "configs:add",
            CONFIG,
            _option("--domain", required=True, help="whose positions; its subdomains count as the domain"),
            _option("--location", required=True, type=arguments.positive, help="the provider's number of a place"),
            _option("--language", required=True, help="such as nl"),
            _option("--device", action="append", choices=("desktop", "mobile"), help="repeatable (default: desktop)"),
            _option("--depth", type=arguments.positive, default=100, help="results looked at (default: 100)"),
            _option("--tenant", default="", help="whose config it is"),
        ),
        _verb("list", "list rank configs and when they are due", "configs:list_configs"),
        _verb(
            "schedule",
            "say when a rank config is due",
            "configs:schedule",
            CONFIG,
            _option(
                "every", metavar="EVERY", help="daily, weekly, monthly (its last day), five cron fields, or manual"
            ),
            _option("--time-zone", default="UTC", help="such as Europe/Amsterdam (default: UTC)"),
            _option(
                "--anchor",
                type=arguments.local_time,
                help="a time there with the wanted time of day and weekday, such as 2026-01-05T09:30"
                " (default: between 04:00 and 10:00, by the config's id)",
            ),
            _option(
                "--max-cost",
                type=arguments.usd,
                help="the most that a scheduled check may pay, in US dollars: without it none pays anything, and where"
                " the claiming DAG says what a unit costs none that would cost more is claimed",
            ),
        ),
        _verb(
            "import",
            "add the keywords of a CSV file to a rank config, or none of them when a row is bad",
            "configs:import_keywords",
            CONFIG,
            _option("file", metavar="FILE.csv", type=Path, help="UTF-8; a header names the column `keyword`"),
            _option("--replace", action="store_true", help="drop the keywords that are not in the file"),
        ),
    ),
)
DOCTOR = _verb("doctor", "look whether the guard would keep its promise here, with the mend", "doctor:doctor")
REPORT = _verb(
    "report",
    "show a rank config's positions: now, before, change, best; or draw them over time",
    "report:report",
    CONFIG,
    _option("--keyword", action="append", type=arguments.keyword, help="only this keyword; repeatable (default: all)"),
    _option(
        "--picture",
        metavar="FILE",
        type=arguments.picture,
        help="draw the positions over time, too; .png or .svg (needs the extra `picture`)",
    ),
    _option("--since", type=arguments.duration, help="how far back the picture goes, such as 2w (default: 90d)"),
    outputs=(*OUTPUTS, "csv"),
)

RANKGUARD = Group(
    name="rankguard",
    help="one active run per key",
    members=(DB, *RUNS, ADOPT, DOCTOR, CONFIGS, REPORT),
)
