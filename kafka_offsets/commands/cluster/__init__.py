"""`kafka-offsets topics` and `transactions`: what do kafka-topics.sh, kafka-configs.sh and kafka-transactions.sh do?"""
