"""One cron minute: rescue, count, plan, spawn, supervise, sum up, exit."""
