"""`agent gate`: the rules, facts, inbox and undo of this program for the calls of other agents, through their hooks."""
