"""The HTML report and the parts of the run folder that it shows."""
