"""Authorization: which parts of a request may its sender have?"""
