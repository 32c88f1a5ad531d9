"""Tables of version 6 by each release of Hudi that writes them, and what each reader sees of them."""
