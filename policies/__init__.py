"""What to do on this screen: pure decisions over frames, no trio, no clock, no randomness."""
