"""The processes that work on the jobs: cycles, runners, dispatchers, and the lock under which hosts plan."""
