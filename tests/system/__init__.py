"""What needs Debian packages, or minutes."""
