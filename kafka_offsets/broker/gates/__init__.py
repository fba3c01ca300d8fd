"""Gates: may this sender ask this? Authentication, authorization, and the APIs of ACLs and tokens."""
