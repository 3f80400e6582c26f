"""Making rule files: a local page to cut templates and mark regions, and trials of rules on recorded frames."""
