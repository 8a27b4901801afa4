"""The form of a finding, and how one is built."""
