"""Benchmarks: each measures Mayfly and a yardstick alternately, on servers of its own, and reports their ratio."""
