"""Diagnosis: why is something stuck? Facts in, findings out, in the order of their importance.

Pure: the time is an argument, and nothing here knows a broker, a client or a file. `facts` has the tables that a
gatherer fills, `rules` the table of rules; a new rule is a function of `members`, `progress` or `refusals`, a row of
that table, and its test. A rule that would have to guess gives nothing.
"""
