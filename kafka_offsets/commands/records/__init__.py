"""`kafka-offsets produce` and `consume`: how do records get into a topic and out of it, as with kcat?"""
