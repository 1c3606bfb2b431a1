"""Fusion: chains of elementwise operators become single e-nodes, each of which is one kernel with one price."""
