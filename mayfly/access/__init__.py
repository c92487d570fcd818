"""Who may use the HTTP API, and for what: tokens with scopes."""
