"""Assertions: how does the state of a broker differ from what a test expects?"""
