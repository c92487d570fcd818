"""What the command line shows of jobs, lanes, cycles and runners."""
