"""Measuring: single operators, and whole graphs against one another (see docs/costs.md)."""
