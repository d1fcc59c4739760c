"""Questions about finished records: comparisons, the gate, budgets, power, and where a printed
number comes from. No torch."""
