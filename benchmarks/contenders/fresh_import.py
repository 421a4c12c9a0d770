"""A process that has imported the task SDK, and then what a DAG file imports of ours: it prints what that costs."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from importlib import import_module
from pathlib import Path

from airflow.sdk import DAG, BaseHook, BaseOperator, BaseSensorOperator, TaskGroup, task  # noqa: F401 - every DAG file's


def resident() -> int:
    """The bytes of memory that this process has now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main(*modules: str) -> None:
    """Import them."""
    before, began, worked = resident(), time.monotonic(), time.process_time()
    for module in modules:
        import_module(module)
    seconds, processor = time.monotonic() - began, time.process_time() - worked
    print(json.dumps({"seconds": seconds, "processor": processor, "bytes": resident() - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
