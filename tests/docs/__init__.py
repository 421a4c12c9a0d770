"""The docs are run."""
