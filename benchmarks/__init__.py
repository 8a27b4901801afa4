"""What a run costs, measured as ratios in one run; never asserted."""
