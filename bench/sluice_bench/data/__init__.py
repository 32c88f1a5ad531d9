"""Generated change data: rows of a ticket-sales database, and objects as connectors write them."""
