"""External histories: read JSON Lines and Jepsen's `history.edn` as tables of events."""
