"""`agent acp`: the program as an agent inside an editor, over the Agent Client Protocol. See docs/editors.md."""
