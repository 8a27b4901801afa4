"""Shared parts of faults: stop and start brokers and instances, cut links, and prove that these effects acted.

Begin with `brokers` and `instances`.
"""
