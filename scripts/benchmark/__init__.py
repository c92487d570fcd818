"""Benchmarks: each measures Mayfly and a yardstick alternately, on private servers, and reports their ratio."""
