"""The offsets log as a table: columns for Arrow, a data source for Spark, and what is computed from them.

Importing this package loads neither pyspark nor pyarrow nor numpy (the extra `spark`).
"""
