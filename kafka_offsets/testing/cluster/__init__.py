"""Clusters for tests: several brokers in one process, each with its own logs, whose leaders and coordinators move."""
