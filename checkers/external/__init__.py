"""External histories: how they are read, and the shared tables that are made from them."""
