"""What a person looks at: the report of a run, attention maps, the status of all runs."""
