"""`sluice status` and `top`: the terminal view and the HTML page."""
