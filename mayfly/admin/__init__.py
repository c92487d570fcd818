"""What operators see and do. The CLI, the HTTP API and the console call only this package for it."""
