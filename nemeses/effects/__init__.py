"""What faults have in common: to stop and start brokers and instances, to cut links, and to prove that it happened.

Begin with `brokers` and `instances`.
"""
