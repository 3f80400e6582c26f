"""How anything lives and dies: ids, lifecycle, mailboxes, supervision, telemetry."""
