"""The shared tables of stored runs: what the three witnesses say, brought together once for every checker."""
