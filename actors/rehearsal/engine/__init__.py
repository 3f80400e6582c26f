"""An HTTP server that answers like a real inference engine and plays the bundled apps from pixels."""
