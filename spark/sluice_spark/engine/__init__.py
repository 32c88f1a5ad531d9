"""The Spark session, and checks of the engine."""
