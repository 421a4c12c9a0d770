"""Airflow as the guard hears it in tests: one answer per run, set by the test."""

from airflow_rankguard.guard.answers import Answer, RunState
from airflow_rankguard.guard.values import Owner


class Answers:
    """Says of each run what the test has set, of every other that it runs; remembers the questions."""

    def __init__(self) -> None:
        self.by_run: dict[str, Answer | Exception] = {}
        self.asked_about: list[str] = []

    def __setitem__(self, run_id: str, said: RunState | Answer | Exception) -> None:
        self.by_run[run_id] = Answer(state=said) if isinstance(said, RunState) else said

    def __call__(self, owner: Owner) -> Answer:
        self.asked_about.append(owner.run_id)
        said = self.by_run.get(owner.run_id, Answer(state=RunState.RUNNING))
        if isinstance(said, Exception):
            raise said
        return said
