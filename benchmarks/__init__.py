"""What the guard costs, measured."""
