"""The provider as a process of its own, which notes when each call arrives.

It says its port, serves until its input ends, and then says what it has seen.
"""

import json
import sys
import time
from dataclasses import dataclass, field

from tests.dataforseo.provider import Call, Provider, served


@dataclass
class Counting(Provider):
    """A provider with a stopwatch.

    :param arrivals: when each call was there, in seconds of one clock.
    """

    arrivals: list[float] = field(default_factory=list)

    def respond(self, call: Call) -> None:
        """Note the time, then answer."""
        self.arrivals.append(time.monotonic())
        super().respond(call)


def main() -> None:
    """Serve."""
    provider = Counting()
    with served(provider):
        print(provider.port, flush=True)
        sys.stdin.read()
    print(json.dumps({"arrivals": provider.arrivals, "paid": list(provider.paid.values())}))


if __name__ == "__main__":
    main()
