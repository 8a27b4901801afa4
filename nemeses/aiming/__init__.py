"""How a fault finds its target and its moment: roles, steps of a worker, states of a transaction.

Begin with `targets`, which draws a role before the run and finds its holder when the fault is injected.
"""
