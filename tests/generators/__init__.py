"""Code generators read /openapi.json: each makes a client, which is compiled, makes a broker and reads a record."""
