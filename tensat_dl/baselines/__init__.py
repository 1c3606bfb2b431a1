"""The searches that the paper compares with: they rewrite one graph after another, without an e-graph."""
