"""A lane and its runs without AWS and Spark, for the tests of the run loop."""
