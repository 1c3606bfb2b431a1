"""How operators and transformations pass each other, and which rules of the library say so."""
