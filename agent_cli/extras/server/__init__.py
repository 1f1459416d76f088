"""`agent serve`: sessions over HTTP. The server is a view of files: a session's log, and its task folder.

What the user asks for is written to the task's inbox before it is acknowledged; a worker process carries it out. So the
server can end at any point, and so can a worker.
"""
