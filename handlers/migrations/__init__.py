"""The tables of the platform's handlers, each named app_…: `mayfly migrate --app` makes them."""

__handlers__ = ()  # of jobs there are none in here, and Alembic is for who migrates
