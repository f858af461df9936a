"""Stand-ins for parts of other libraries."""
