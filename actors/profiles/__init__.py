"""Bundled model profiles, as the TOML files that a user would write, and what can be wrong with one."""
