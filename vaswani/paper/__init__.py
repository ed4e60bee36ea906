"""The paper's own numbers, recomputed by the code that trains and translates, and drawn."""
