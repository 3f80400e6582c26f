"""Plays the bundled apps from pictures of them: decode, recognise, read, plan."""
