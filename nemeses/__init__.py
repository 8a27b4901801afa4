"""Faults, one file each: how a fault is drawn, injected, proved and healed."""
