"""Races of real processes that are killed at random, their history, and the checker that judges it."""
