"""Finds rules: terms that compute the same, generalised, checked, and reduced to those that are needed."""
