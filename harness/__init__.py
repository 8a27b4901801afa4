"""The base of Fencepost: clusters, clients, network, processes, evidence, results, settings and the runner."""
