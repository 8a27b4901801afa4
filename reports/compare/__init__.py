"""Two stored runs, or two suites, next to each other."""
