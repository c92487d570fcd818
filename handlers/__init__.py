"""The jobs themselves, one room an area."""

__migrations__ = "migrations/versions"  # of the tables that they bring along: `mayfly migrate --app`
