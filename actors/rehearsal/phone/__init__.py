"""Simulated phones that speak the real ADB device protocol."""
