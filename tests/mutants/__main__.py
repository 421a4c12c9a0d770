"""Take one guard line out at a time: each must turn its tests red. Prints a table; fails when a mutant survives.

``python -m tests.mutants lines`` tries the one list, ``lifecycle`` the other; without a name both are tried.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

from tests.mutants.bench import GREEN, RED, Bench, Result, opened_bench
from tests.mutants.mutant import LISTS, Mutant, MutantList, StaleList


class Benches:
    """As many benches as work at once; each piece of work borrows one."""

    def __init__(self, benches: list[Bench]) -> None:
        self._count = len(benches)
        self._free: SimpleQueue[Bench] = SimpleQueue()
        for bench in benches:
            self._free.put(bench)

    def untouched(self, mutants: list[Mutant]) -> list[Result]:
        """Run everything that the mutants name on the code as it is; a share on each bench."""
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        with ThreadPoolExecutor(self._count) as pool:
            return list(pool.map(self._run, (tests[n :: self._count] for n in range(self._count))))

    def survivors(self, mutants: list[Mutant]) -> list[Mutant]:
        """Run each mutant and print its row; those whose tests did not turn red are returned."""
        with ThreadPoolExecutor(self._count) as pool:
            caught = list(pool.map(self._is_caught, mutants))
        return [mutant for mutant, is_caught in zip(mutants, caught, strict=True) if not is_caught]

    def _run(self, tests: list[str]) -> Result:
        bench = self._free.get()
        try:
            return bench.run(tests)
        finally:
            self._free.put(bench)

    def _is_caught(self, mutant: Mutant) -> bool:
        bench = self._free.get()
        try:
            result = bench.run_without(mutant)
        finally:
            self._free.put(bench)
        is_caught = result.exit_code == RED
        said = result.noticed_by if is_caught else f"SURVIVED (pytest's exit code {result.exit_code})"
        print(f"{mutant.name:<60} {result.seconds:5.1f} s  {said}", flush=True)
        return is_caught


def tried(chosen: MutantList) -> bool:
    """Try a list's mutants.

    :returns: whether each of them was caught.
    """
    began, mutants = time.monotonic(), chosen.mutants()
    with ExitStack() as opened:
        benches = Benches([opened.enter_context(opened_bench()) for _ in range(chosen.benches)])
        for result in benches.untouched(mutants):
            if result.exit_code != GREEN:
                print(result.output, "The tests are red on the code as it is: no mutant was tried.", sep="\n")
                return False
        survivors = benches.survivors(mutants)
    caught, seconds = len(mutants) - len(survivors), time.monotonic() - began
    print(f"{chosen.name}: {caught} of {len(mutants)} mutants were caught, in {seconds:.0f} s.", flush=True)
    return not survivors


def main() -> int:
    """Try the chosen lists.

    :returns: the exit code: 0 when every mutant was caught.
    """
    by_name = {each.name: each for each in LISTS}
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("lists", nargs="*", metavar="list", help=f"{' or '.join(by_name)}; without one both")
    names = parser.parse_args().lists or list(by_name)
    if unknown := set(names) - set(by_name):
        parser.error(f"no list {', '.join(sorted(unknown))}")
    try:
        for name in names:
            for mutant in by_name[name].mutants():
                mutant.text()
    except StaleList as stale:
        print(stale)
        return 1
    results = [tried(by_name[name]) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
