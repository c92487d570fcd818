"""The migrations of the app_ tables: `mayfly migrate --app`."""
