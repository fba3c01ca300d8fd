"""Partitions of topics: their logs, their producers, and the background work on logs.

Logs are opened when a request first needs them, those of more than 256 KiB by a thread (log_opener.py). Such a request
waits (broker/context/awaited_logs.py) within its timeout: that of Produce, DeleteRecords and ListOffsets, at most 30
s, and 10 s for other requests. A Fetch of several partitions waits for one of them as long as for records. At most
1000 requests and 64 MiB of them wait. All others, and those whose time is over, get NOT_LEADER_OR_FOLLOWER. The rest
is opened one by one, so that retention and compaction reach logs without requests.

producers.py holds what a partition knows of its producers: sequence numbers, open and aborted transactions, and with
them the last stable offset. A batch waits until it is on the disk that its partition takes part in the transaction.
log_cleaner.py runs the steps of storage/cleaner in the background, and those of retention; forced_compaction.py asks
it for all logs at once.
"""
