"""`python -m tests.model [PART ...]`: each scenario's verdict, with the named parts of the protocol taken out."""

from __future__ import annotations

import sys
from dataclasses import fields

from tests.model.parts import Parts
from tests.model.scenarios import SCENARIOS
from tests.model.search import search


def main(taken_out: list[str]) -> int:
    """Print the verdicts; return 1 when a promise is broken, 2 for an unknown part."""
    known = [part.name for part in fields(Parts)]
    if not set(taken_out) <= set(known):
        sys.stdout.write(f"The parts are: {', '.join(known)}\n")
        return 2
    verdicts = []
    for name, scenario in SCENARIOS.items():
        verdicts.append(search(scenario, Parts(**dict.fromkeys(taken_out, False))))
        sys.stdout.write(f"{name}: {verdicts[-1]}\n")
    return int(any(verdict.breach for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
