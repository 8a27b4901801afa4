"""Faults, one file each: how it is drawn, how it is carried out, and how it is known that it acted."""
