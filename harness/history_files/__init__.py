"""external histories: JSON Lines and Jepsen's `history.edn`, as events of one form."""
