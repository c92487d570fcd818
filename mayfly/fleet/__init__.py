"""The processes that run jobs: cycles, runners, dispatchers, and the lock under which hosts plan."""
