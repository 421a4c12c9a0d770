"""A simulated quarter of scheduled rank checks, with real processes that claim what is due and are killed at it."""
