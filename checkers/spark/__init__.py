"""Everything that knows how Spark is started, reached and stopped, and what its errors mean."""
