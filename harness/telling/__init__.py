"""What a run recorded, as words: safe to show, and short enough to read."""
