"""The links of a local cluster, each through a proxy of its own, and the cuts made in them."""
