"""Who works on the jobs: cycles, runners, and the lock under which hosts plan one after the other."""
