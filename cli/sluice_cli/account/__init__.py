"""What is said of a lane, a table, an object, a row or a service, and which step helps: decided here once."""
