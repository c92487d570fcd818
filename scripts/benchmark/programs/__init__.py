"""Programs that are measured, each in its own interpreter; their imports are part of the measurement."""
