"""Batches for operators: the list, and an end for what a dead producer left."""
