"""Commands around the installation: prune, completion for shells, the man page."""
