"""The guard where real sessions meet: paused, cut off, counted and explained."""
