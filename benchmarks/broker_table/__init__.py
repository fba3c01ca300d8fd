"""The table of docs/performance.md: how does each request compare with Apache Kafka and kfake, and what makes it slow?

    python -m benchmarks.broker_table [--quick] [--growth] [--docs] [--without kafka] [--lines commit-1 find]

lines.py has the rows of the table and the dimensions of growth; load.py drives one server, rounds.py all of
them in turn; figures.py computes medians and ratios; page.py and plots.py present them.
"""
