"""A native trio client of the adb server's host protocol, and a phone driven through it."""
