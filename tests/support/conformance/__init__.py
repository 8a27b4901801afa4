"""What every kind of cluster must do, asked through the interface alone."""
