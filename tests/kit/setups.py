"""Pieces of scenario files with setups and accounts."""

BASE = """
name = "t"
planner = { enabled = false }
[[phones]]
kind = "simulated"
app = "gate"
count = 3
[apps.gate]
goal = "play"
package = "dev.corral.gate"
rules = "gate.rules.toml"
"""
ACCOUNTS = """
[[accounts]]
pool = "main"
name = "ann"
user_env = "USER_A"
password_env = "PASSWORD_A"
[[accounts]]
pool = "main"
name = "bob"
user_env = "USER_B"
password_env = "PASSWORD_B"
"""
