"""Access: who is at a listener, and how much may a client send, read and change? Listeners, tokens and quotas."""
