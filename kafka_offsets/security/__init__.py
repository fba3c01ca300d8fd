"""Security: who is the peer, and what may it do?"""
