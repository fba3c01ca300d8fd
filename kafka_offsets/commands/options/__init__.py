"""Options: what do the arguments of commands mean, and which brokers, groups and partitions do they choose?"""
