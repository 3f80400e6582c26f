"""Stand-ins for the outside world (phones, apps, engines), never mistaken for the real thing."""
