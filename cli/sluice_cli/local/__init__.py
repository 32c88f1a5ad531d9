"""`sluice local` and `sluice demo`."""
