"""The paper's own numbers: as data, recomputed with the code that trains and translates, and drawn."""
