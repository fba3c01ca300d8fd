"""What the documents say that consumer offsets and groups grew from: one file a document, one test a claim.

docs/claims.md numbers the claims of the five documents. Each docstring names the section of its claim. What a document
claims and is not served is listed, with the reason, in the docstring of its file. Where a document and Kafka disagree
the test shows both: Kafka by default, the document by configuration, or by the decision in docs/differences.md.
"""

import tests.interop  # noqa: F401 - which imports kafka-python without its one warning
