"""How long a server runs: as long as its parent, or as a command that it is for."""
