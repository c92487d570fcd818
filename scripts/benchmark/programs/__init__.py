"""Programs that are measured, each in an interpreter of its own; what they import is part of what they cost."""
