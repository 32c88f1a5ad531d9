"""What the local Spark and the local functions run on: Java, jars, Pythons."""
