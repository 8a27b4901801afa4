"""Make the shared tables of stored runs: journals, broker logs and final reads, joined once for all checkers."""
