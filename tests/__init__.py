"""What this project promises, each promise with a test that can fail."""
