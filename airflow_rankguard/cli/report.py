"""The verb ``report``: a rank config's positions for people, machines and spreadsheets, and a picture of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4
from warnings import catch_warnings

from airflow_rankguard.cli.connecting import connected
from airflow_rankguard.cli.exit_codes import ExitCode, UsageError
from airflow_rankguard.cli.rendering import Table, present, present_csv, remark
from airflow_rankguard.guard.store import looks
from airflow_rankguard.rank import picture, store
from airflow_rankguard.rank.errors import UnknownKeyword
from airflow_rankguard.rank.history import History, build_history
from airflow_rankguard.rank.report import Report, ReportRow, build_report

if TYPE_CHECKING:
    from airflow_rankguard.guard.database import Database
    from airflow_rankguard.rank.keywords import Keyword
    from airflow_rankguard.rank.values import RankConfig

USUALLY = timedelta(days=90)
EVER = timedelta(days=36_525)


def report(args: Namespace) -> ExitCode:
    """Show a rank config's positions, and draw them.

    :raises UsageError: the picture cannot be written, or there is none to go back in.
    :raises NoMatplotlib: a picture cannot be drawn here.
    :raises UnknownKeyword: the config has no keyword that was named.
    """
    if args.picture:
        picture.ensure_drawable()
    elif args.since is not None:
        raise UsageError("--since says how far back a picture goes: name one by --picture.")
    with connected(args) as place:
        database = place.database()
        config = database.look(store.get_config, args.config)
        keywords = _wanted(config, database.look(store.list_keywords, config.id), args.keyword)
        made = build_report(config, keywords, database.look(store.list_measurements, config.id))
        history = _history(database, config, keywords, args.since) if args.picture else None
    code = ExitCode.OK if history is None else _draw(history, args.picture)
    _present(args.output, made)
    return code


def _wanted(config: RankConfig, keywords: Sequence[Keyword], texts: Sequence[str] | None) -> Sequence[Keyword]:
    if texts is None:
        return keywords
    if unknown := set(texts).difference(keyword.text for keyword in keywords):
        raise UnknownKeyword(config.id, min(unknown))
    return [keyword for keyword in keywords if keyword.text in texts]


def _history(database: Database, config: RankConfig, keywords: Sequence[Keyword], since: timedelta | None) -> History:
    start = database.look(looks.now) - min(USUALLY if since is None else since, EVER)
    return build_history(config, keywords, database.look(store.list_points, config.id, start))


def _draw(history: History, file: Path) -> ExitCode:
    if not history.lines:
        remark(f"rankguard: {file} is not written: nothing was measured in its time.")
        return ExitCode.REFUSED
    form = file.suffix.lower().removeprefix(".")
    with catch_warnings(record=True, action="always") as warned:
        _write(file, picture.draw(history, form))
    if form == "png" and any("missing from font" in str(warning.message) for warning in warned):
        remark(f"Some letters are not in the font of {file}: an .svg is shown with the fonts of whoever looks at it.")
    return ExitCode.OK


def _write(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = file.with_name(f".{uuid4().hex}.part")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def _present(output: str, made: Report) -> None:
    if output == "csv":
        names = [field.name for field in fields(ReportRow)]
        present_csv([*names, "finished_at"], ((*astuple(row), made.finished_at) for row in made.rows))
        return
    present(output, asdict(made), _table(made) if made.rows else f"Rank config {made.config_id} has no keywords.")


def _table(made: Report) -> Table:
    when = "not measured yet" if made.finished_at is None else f"measured {made.finished_at:%Y-%m-%d %H:%M} UTC"
    columns = ("keyword", "device", "now", "before", "change", "best", "note")
    return Table(f"{made.domain} ({made.config_id}), {when}", columns, list(map(_table_row, made.rows)))


def _table_row(row: ReportRow) -> tuple[object, ...]:
    change = "" if row.change is None else f"{row.change:+d}"
    note = " ".join(filter(None, (row.note, "featured snippet" if row.featured else "")))
    return (row.keyword, row.device, row.position, row.before, change, row.best, note)
