"""What users add to the program: each kind in a room of its own."""
