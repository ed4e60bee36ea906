"""Section 5 of the paper: loss, optimiser, the update, and the loop around it."""
