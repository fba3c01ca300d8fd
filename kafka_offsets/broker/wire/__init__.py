"""Wire: what does a connection ask, and what has it been answered? Connections, responses, and what an API is."""
