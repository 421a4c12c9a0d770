"""The guard, proven on both databases."""
