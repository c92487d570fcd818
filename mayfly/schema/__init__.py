"""The tables: their columns, their version and their migrations."""
