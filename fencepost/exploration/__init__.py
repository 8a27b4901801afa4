"""`fencepost explore`: every single fault on the messages of small transactional programs, one after the other.

`space` derives the cases from the requests that a client sends without faults. `batch` carries out cases as one run.
"""
