"""Runs in the formats of other programs, and other programs' models as runs."""
