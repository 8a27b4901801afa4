"""One file an anomaly, or a family of them: its definition, and the query that finds it."""
