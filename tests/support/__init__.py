"""What several tests share; imported by name."""
