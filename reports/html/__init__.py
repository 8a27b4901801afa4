"""The HTML report: the page, and what it shows of the run's folder."""
