"""From a prompt to a completion: engines, homes, wire format, health."""
