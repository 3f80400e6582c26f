"""Drivers for phones: the `Device` protocol and what implements it."""
