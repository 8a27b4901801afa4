"""The ground: history, store, verdict, clusters, clients, network, schedule, environment."""
