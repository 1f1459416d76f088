"""Working days: long sessions across many rooms, in the real program, against a model server on loopback."""
