"""From tables to judgements: running the checks, whether the evidence is complete, and examples."""
