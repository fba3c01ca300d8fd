"""Compiled codecs: what does a schema say, and how does it become functions that read and write bytes?

A schema is parsed when one of its messages is first used. For each version in use, codec.py generates a flat function
in memory, without loops over fields or checks of versions (decoding.py and encoding.py hold its parts). A message of
many fields gets shorter text that calls flexible.py, since compiling is most of its first use: under 2 ms. A value
class covers all versions of its message, so a handler checks the version only where the meaning changed.
"""
