"""The conformance suite of clusters: it uses only the interface `Cluster`."""
