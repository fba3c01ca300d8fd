"""The broker on the network and as a process: sockets, threads, the log of the process, metrics over HTTP."""
