"""Processes of one host: identity, fork, exit codes, files in the state directory. Knows no database."""
