"""Plain functions, named in the settings, that are told of jobs: before and after each, and when one is dead."""

ON_DEAD_TYPE = "mayfly.on_dead"  # of the jobs that tell of dead ones
ON_DEAD_LANE = "mayfly"  # their own: a hook that is slow, or hangs, holds up no lane of the application's
