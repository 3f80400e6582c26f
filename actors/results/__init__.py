"""Records, reports and replays of runs."""
