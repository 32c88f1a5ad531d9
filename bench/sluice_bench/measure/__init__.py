"""How values are taken and kept: stack, times, percentiles, and the machine."""
