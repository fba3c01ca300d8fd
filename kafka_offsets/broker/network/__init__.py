"""Network: the broker's sockets, threads and process, the process log, metrics over HTTP."""
