"""The only place where rooms meet: phones, engines, recorder, fleet, command line."""
