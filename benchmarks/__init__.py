"""What the program costs, beside a bare script that does the same work: `make bench`. See docs/benchmarks.md."""
