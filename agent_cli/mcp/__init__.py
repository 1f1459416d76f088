"""MCP servers: their tools, resources and prompts in a session. (`cli/serve_tools` is our own.)

    config        declared servers, with environment variables substituted
    approvals     the user's approvals: of a project's servers, and of the tools of all servers
    manager       all servers of a session, and the search for their tools
    server_state  state and offers of one server; server starts, stops and queries it, with the loop of all servers
    supervisor    on the loop: starts a server, watches it, restarts it a limited number of times
    client        wraps the SDK's client; stdio runs a server's process
    oauth, credentials    logins to servers: protocol, storage
    tools         what a turn sees of servers

Only config and approvals are loaded if no server is started. Importing the SDK takes half a second of CPU, which is
spent on the loop's own thread when the first server starts.
"""
