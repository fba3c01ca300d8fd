"""Broker: who decides, when is it durable, who is answered? The rooms around the coordinator's decisions.

docs/architecture.md has their order; broker/network and broker/nodes alone know asyncio.
"""
