"""Benchmarks, one a file: ratios measured side by side, repeated, with the command to repeat them."""
