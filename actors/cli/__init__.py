"""The `corral` command: parse, load, `trio.run`; no logic."""
