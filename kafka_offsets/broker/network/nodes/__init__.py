"""Nodes: how does a broker take part in a cluster whose brokers are processes, and who starts them?"""
