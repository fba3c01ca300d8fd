"""Admin requests: what does one request about many groups, topics or transactions say, and which broker gets it?"""
