"""Tests of the metrics and spans: what arrives at a real StatsD port, and what a real tracer has recorded."""
