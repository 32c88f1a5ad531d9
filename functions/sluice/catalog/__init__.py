"""Plans what a sync changes in the Glue catalog: tables, views and partitions."""
