"""Compare the subjects of findings (inputs, records, transactions) with those that have none.

Begin with `conclude` in `conclude.py`. `subjects.py` selects a bounded sample of subjects with Spark, `dimensions.py`
says what each of them has in common with others, `contrast.py` finds the best contrasts, and `origin.py` says whether
faults, the program or the test lead to the findings. Only runs with findings, or with undecided rows, are compared.
"""
