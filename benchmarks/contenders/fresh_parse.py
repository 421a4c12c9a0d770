"""A process that parses DAG files as Airflow's DAG processor does, up to what it would send on."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path

from airflow.dag_processing.dagbag import BundleDagBag
from airflow.serialization.serialized_objects import DagSerialization


def resident() -> int:
    """The bytes of memory that this process has now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def parsed(file: Path) -> dict[str, float]:
    """Parse a file and serialize its DAGs."""
    before, began, worked = resident(), time.monotonic(), time.process_time()
    bag = BundleDagBag(dag_folder=file, bundle_path=file.parent, bundle_name="benchmark", load_op_links=False)
    serialized = [DagSerialization.to_dict(dag) for dag in bag.dags.values()]
    seconds, processor = time.monotonic() - began, time.process_time() - worked
    assert serialized, bag.import_errors
    assert not bag.import_errors, bag.import_errors
    return {"seconds": seconds, "processor": processor, "bytes": resident() - before}


def main(warming: str, measured: str) -> None:
    """Parse one file, so that Airflow has loaded what parsing needs, and measure another."""
    parsed(Path(warming))
    print(json.dumps(parsed(Path(measured))))


if __name__ == "__main__":
    main(*sys.argv[1:])
