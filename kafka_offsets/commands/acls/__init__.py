"""ACLs of any broker from the command line: `kafka-offsets acls`, in the words of kafka-acls.sh."""
