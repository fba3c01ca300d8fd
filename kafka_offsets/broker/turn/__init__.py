"""Turn: when does work run? Deadlines, background tasks and worker threads of the broker's one thread."""
