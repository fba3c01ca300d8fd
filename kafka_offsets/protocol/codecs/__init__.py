"""Compiled codecs: what does a schema say, and how does it become functions that read and write bytes?"""
