"""A cluster that the tests of a pytest session share; the first that asks starts it, and it ends with the session."""
