"""Shared parts of faults: stop brokers, workers and instances, change links and messages, and prove that these acted.

Begin with `brokers` and `member`.
"""
