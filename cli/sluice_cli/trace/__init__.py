"""`sluice history`, `trace` and `row`: what happened to objects and rows."""
