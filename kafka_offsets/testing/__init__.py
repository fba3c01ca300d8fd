"""What tests of other projects import. Each module is imported by its name, so that none costs anything before its use.

strategies  Hypothesis strategies for messages, records and record batches; needs `hypothesis`
"""
