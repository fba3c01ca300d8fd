"""Transactional ids: their states, and the records that store them."""
