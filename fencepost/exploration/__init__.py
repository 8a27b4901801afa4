"""`fencepost explore`: every single fault on the messages of small transactional programs, one after the other.

`space` derives the cases from the requests that a client sends without faults, and records those that were tried.
`batch` carries out cases as one run, `explorer` all of them. `outcome` says what was found.
"""
