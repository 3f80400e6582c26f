"""The bundled apps: pure state and drawing, deterministic by seed."""
