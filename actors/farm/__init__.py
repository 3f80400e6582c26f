"""The farm: a daemon that plays submitted scenarios on phones that it reserves, for weeks."""
