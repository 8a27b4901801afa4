"""One run: its processes, schedule, faults, end, and what it notes about itself."""
