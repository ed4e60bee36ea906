"""Scores of translations, and how sure they are."""
