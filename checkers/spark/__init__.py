"""Start, reach and stop Spark, and translate its errors."""
