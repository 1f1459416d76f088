"""What people add: hooks."""
