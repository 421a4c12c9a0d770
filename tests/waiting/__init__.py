"""Waiting in the triggerer: what the waiters of one event loop share, and when each is woken."""
