"""Graphs at other sizes of their open dimensions: shapes there, and e-nodes that hold at the given sizes only."""
