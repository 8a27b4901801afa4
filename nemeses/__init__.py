"""Faults: how a fault is drawn, injected, proved and healed.

A file has the faults that share a behaviour, one row each; `aiming` finds the target and the moment of a fault, and
`effects` has what files share. Begin with `stopped_brokers`, then `network_faults`. `registry` has all faults by name.
"""
