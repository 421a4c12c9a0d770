"""Recorded result pages instead of a provider: free, repeatable, the same each time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from airflow_rankguard.rank.errors import BadRecording, SerpError
from airflow_rankguard.rank.response import page_of, search_of, tasks_of
from airflow_rankguard.rank.serp import SerpQuery, SerpResult
from airflow_rankguard.rank.values import Device


class RecordedSource:
    """A folder of JSON files in DataForSEO's response format; what they hold counts, their names do not.

    :param folder: read at the first fetch, once.
    :param delay: seconds that each fetch takes, to look like a provider.
    :param sleep: how to wait.
    """

    def __init__(self, folder: Path | str, *, delay: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> None:
        self.folder = Path(folder)
        self.delay = delay
        self.sleep = sleep

    def fetch(self, query: SerpQuery) -> SerpResult:
        """Give the recorded page of a keyword on a device.

        :raises SerpError: it is not recorded, or what is recorded is the provider's error.
        :raises BadRecording: the folder is missing or a file in it cannot be used.
        """
        if self.delay:
            self.sleep(self.delay)
        task = self._tasks.get((query.keyword, query.device))
        if task is None:
            raise SerpError("not recorded")
        return page_of(task)

    @cached_property
    def _tasks(self) -> dict[tuple[str, Device], dict[str, Any]]:
        if not self.folder.is_dir():
            raise BadRecording(f"There is no folder of recorded results {str(self.folder)!r}.")
        found: dict[tuple[str, Device], dict[str, Any]] = {}
        for file in sorted(self.folder.glob("*.json")):
            for search, task in _searches(file):
                if search in found:
                    raise BadRecording(f"{file.name} records {search[0]!r} on {search[1]} a second time.")
                found[search] = task
        return found


def _searches(file: Path) -> Iterator[tuple[tuple[str, Device], dict[str, Any]]]:
    try:
        for task in tasks_of(json.loads(file.read_bytes(), parse_float=Decimal)):
            yield search_of(task), task
    except ValueError as error:
        raise BadRecording(f"{file.name} is not JSON: {error}") from error
    except SerpError as error:
        raise BadRecording(f"{file.name} is not a recorded answer: {error.reason}") from error
