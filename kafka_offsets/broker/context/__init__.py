"""Context: what does a handler receive? The parts of a broker, and the ways in which a request waits."""
