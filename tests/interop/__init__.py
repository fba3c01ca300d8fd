"""Real clients over a socket, against our broker or, to judge the tests themselves, against Apache Kafka."""

import warnings

with warnings.catch_warnings():
    # kafka-python 3.0.12 reads its schemas by importlib.resources.read_text, which Python 3.11 deprecates: import it
    # once here, with that one warning off, so that warnings stay errors everywhere else.
    warnings.filterwarnings("ignore", message="(read|open)_text is deprecated", category=DeprecationWarning)
    import kafka.admin  # noqa: F401
