"""Clusters for tests: several nodes over one state, with leaders and coordinators that move."""
