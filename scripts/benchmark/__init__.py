"""Benchmarks: each measures Mayfly and a yardstick alternately in one run and reports ratios."""
