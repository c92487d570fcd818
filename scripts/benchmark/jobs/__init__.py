"""The jobs that are measured. Each module is named by the benchmark that needs it."""
