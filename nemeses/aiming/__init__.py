"""How a fault finds its target and its moment: roles, steps of a worker, states of a transaction.

Begin with `targets` (which role is drawn, and who has it now).
"""
