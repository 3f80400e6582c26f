"""The fleet's own metrics: rows spooled while a fleet runs, and their loader, which is a process of its own."""
