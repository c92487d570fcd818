"""The benchmarks, one file each. A new one is a function here and a line in registry.py."""
