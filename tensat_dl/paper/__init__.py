"""Earlier algorithms, to compare with."""
