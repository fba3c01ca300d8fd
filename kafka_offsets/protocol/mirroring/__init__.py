"""Mirroring: responses and their parts that follow from the request, by the schemas of both."""
