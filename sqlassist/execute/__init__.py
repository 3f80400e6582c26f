"""Runs what the guard let through, within bounds: one backend a file, and nothing but a `CheckedQuery` goes in."""
