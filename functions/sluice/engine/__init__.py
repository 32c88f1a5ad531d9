"""What a trial of the Spark engine reports."""
