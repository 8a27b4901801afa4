"""Stored runs: families of histories, each with what it is made of, how it is drawn and how it is defined.

Of each family there are the small ones, all of them, and larger ones at random. And there are runs into which
anomalies are planted. The definitions know nothing of the checkers.
"""
