"""What stands between any text that a model writes and a database: one check a file, in the order of `check.py`."""
