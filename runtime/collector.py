"""Python's garbage collector, paced for a process of many long-lived small objects."""

import gc

# Of 700 actors, the collector's default pace (700, 10, 10) took 11 % of the CPU, and its full passes held every actor
# up for 20 to 200 ms. Reference cycles are rare here, so a slower pace keeps no more memory.
THRESHOLDS = (50_000, 20, 50)


def collect_rarely() -> None:
    """Slow the collector of this process down; called once, before its main loop."""
    gc.set_threshold(*THRESHOLDS)
