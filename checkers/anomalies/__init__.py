"""One file for each anomaly, or for a family of anomalies: the definition, and the query that finds it."""
