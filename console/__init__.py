"""The web console and the HTTP API. Imports the library `mayfly`, and neither dispatcher nor runner."""
