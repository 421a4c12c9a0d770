"""The scenarios: each module has one `play`, which measures and returns figures."""
