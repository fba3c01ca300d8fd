"""Core: the broker without sockets. The table of APIs, the dispatcher, and the turn."""
