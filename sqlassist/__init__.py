"""From a question to an answer, inside one tenant."""
