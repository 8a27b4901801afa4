"""Start, reach and stop Spark, choose its settings, translate its errors, and store and join its tables."""
