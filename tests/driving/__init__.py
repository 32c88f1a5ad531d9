"""A driver's world without AWS and Spark: what the tests of the run loop stand on."""
