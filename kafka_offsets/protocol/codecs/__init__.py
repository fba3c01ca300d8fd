"""Compiled codecs: how does a schema become functions that read and write bytes?"""
