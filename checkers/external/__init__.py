"""Read external histories, and make the shared tables from them."""
