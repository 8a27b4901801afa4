"""Histories from elsewhere: JSON Lines and Jepsen's `history.edn`, as events of one form."""
