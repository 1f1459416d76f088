"""Tests against programs that others wrote, installed into scratch environments: run with `make outside`."""
