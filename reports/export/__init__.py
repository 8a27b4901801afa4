"""A stored run as a trace that other tools open: one file of Trace Event JSON, with a track for each process,
transactional id and partition.
"""
