"""Start processes that cannot outlive their run, even if the run is killed."""
