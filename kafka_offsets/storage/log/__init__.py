"""Log: the segments of one partition as one log: opening, appending, reading and truncating."""
