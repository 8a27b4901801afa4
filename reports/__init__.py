"""Show a verdict to people and programs: as HTML, as JUnit XML, and as lines on the console."""
