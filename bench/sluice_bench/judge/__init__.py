"""Every recorded set judged against the rows of its source database."""
