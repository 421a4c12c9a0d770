"""Running Hypothesis' state machines: however slow a step is on a busy machine, only what it finds counts."""

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(make: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int) -> None:
    """Run a state machine so many times, for so many steps each."""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(make, settings=chosen)  # type: ignore[arg-type] # any factory will do
