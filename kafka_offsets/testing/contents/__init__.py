"""Contents: what is in the logs and groups of a broker, and how does it differ from what a test expects?"""
