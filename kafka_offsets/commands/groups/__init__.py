"""`kafka-offsets groups`, `offsets` and `lag`: what does kafka-consumer-groups.sh do, on any Kafka broker?"""
