"""The rank check's tests."""
