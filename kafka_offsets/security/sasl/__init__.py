"""SASL: how does a peer prove its name? State machines of the broker's side: bytes in, bytes out, then a principal."""
