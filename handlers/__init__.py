"""An application on top of Mayfly: email, boards, prospects, notifications and more. See README.md."""

# The modules that declare handlers. Everything else is imported when a job needs it.
__handlers__ = (
    "ai", "boards", "campaigns", "mail", "mailroom", "maintenance", "notify", "outreach", "prospects", "samples",
    "search",
)  # fmt: skip
__migrations__ = "migrations/versions"  # the app_ tables: `mayfly migrate --app`
