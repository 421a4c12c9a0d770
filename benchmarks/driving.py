"""Drives a contender: its script runs in a process of its own, and is told by lines what to do."""

import json
import subprocess
from contextlib import suppress
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

from benchmarks.peers import Contender, interpreter

GRACE = 5.0
TAIL = 2000


class Driven:
    """A process that carries out a contender's lines, as a context manager.

    It ends when its input is closed, so it does not outlive its owner.

    :param dsn: where it connects before the block begins; without one it waits for a line that says it.
    """

    def __init__(self, contender: Contender, *, dsn: str | None = None) -> None:
        self.contender = contender
        self._dsn = dsn

    def __enter__(self) -> Self:
        command = [interpreter(self.contender), self.contender.script]
        # A pipe that nobody reads would fill.
        self._said = TemporaryFile()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        try:
            if self._dsn is not None:
                self.call("connect", dsn=self._dsn)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()

    @property
    def pid(self) -> int:
        """The process itself."""
        return self._process.pid

    def call(self, verb: str, **values: object) -> dict[str, Any]:
        """Have one line carried out.

        :param verb: a method of contenders/serving.py's `Serving`.
        :param values: its arguments.
        :returns: its answer.
        :raises ChildProcessError: when the process is dead; the message has the end of what it said.
        """
        self.send(verb, **values)
        return self.receive()

    def send(self, verb: str, **values: object) -> None:
        """Begin to have one line carried out: the next `receive` has its answer. It raises what `call` raises."""
        assert self._process.stdin is not None
        try:
            print(json.dumps({"verb": verb, **values}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._death() from None

    def receive(self) -> dict[str, Any]:
        """Wait for the answer to the oldest line that has none yet. It raises what `call` raises."""
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise self._death()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _death(self) -> ChildProcessError:
        self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")[-TAIL:]
        return ChildProcessError(f"{self.contender.name} has ended with {self._process.returncode}:\n{said}")
