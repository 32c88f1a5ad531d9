"""A model of lanes, runs and crashes that a search explores exhaustively."""
