"""The guard database step by step; frozen once released, so nothing of the package is imported here."""
