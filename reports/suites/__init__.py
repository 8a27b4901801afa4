"""A suite as JUnit XML (`junit.py`) and as Markdown for a CI's page (`markdown.py`); both use `wording.py`."""
