"""Reads the configuration."""

PATH = "config/server.yaml"
