"""The trigger of those who wait for a key."""
