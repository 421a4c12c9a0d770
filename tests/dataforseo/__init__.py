"""Tests of the paid source: its rules, and its calls to a local server that speaks DataForSEO's protocol."""
