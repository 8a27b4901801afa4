"""Who judges: a Spark of one's own, or one that is shared for as long as a pytest session or a `with` lasts."""
