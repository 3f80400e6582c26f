"""The six stages of an answer, each a function from the work so far to its end, or to the next stage."""
