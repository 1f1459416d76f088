"""MCP servers: their tools, resources and prompts in a session, and our own tools for other programs.

    config        which servers there are, with variables of the environment filled in
    approvals     what a user agreed to: a project's servers, and the tools of all of them
    manager       all servers of a session
    server_state  how one server stands and what it offers; server starts, ends and asks it
    supervisor    on the loop: bring a server up, keep it, start it again a bounded number of times
    client        the door of the SDK's client; stdio has a server's process; serve is the door of the SDK's server
    login, oauth, credentials    logins to servers: asked for, carried out, stored
    tools, tool_search, resources    what a turn sees of all this

Only config and approvals are loaded where no server is to be started. The SDK takes half a second of CPU to import:
that is paid on the loop's own thread, when the first server starts.
"""
