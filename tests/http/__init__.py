"""The interface over HTTP: every method, every refusal, who may call."""
