"""Start, reach and stop Spark, and run queries on it.

Begin with `session.py`. `driver.py` starts the JVM, and `settings.py` has Spark's settings. `frames.py` stores, groups
and joins tables. `errors.py` translates the errors of Spark.
"""
