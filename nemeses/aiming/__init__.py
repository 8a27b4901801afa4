"""How a fault finds its target and the moment of its injection: roles, steps of a worker, states of a transaction.

Begin with `targets`. It draws a role before the run, and finds the broker or worker with this role at the injection.
"""
