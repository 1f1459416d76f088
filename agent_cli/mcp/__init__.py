"""MCP servers: their tools, resources and prompts in a session. (`cli/serve_tools` is our own server.)

    config        declared servers, with environment variables substituted
    catalog       the tools that a server offers, and a cache of them
    approvals     the user's approvals: of a project's servers, and of the tools of all servers
    manager       all servers of a session, and the search for their tools
    server_state  state and offers of one server
    server        starts, stops and queries one server; the event loop of all servers
    supervisor    runs on the loop: starts a server, watches it, restarts it a limited number of times
    client        wraps the SDK's client
    stdio         runs a server's process
    oauth         logins to servers
    credentials   storage of logins
    tools         the tools, resources and prompts of servers, as a session uses them

Only config and approvals are loaded if no server is started. Importing the SDK takes half a second of CPU, on the
loop's thread, when the first server starts.
"""
