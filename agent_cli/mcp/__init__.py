"""MCP servers: their tools, resources and prompts in a session. (`cli/serve_tools` is our own server.)

    config        declared servers, with environment variables substituted
    catalog       the tools that a server offers, and a cache of them
    schemas       the schemas of tools in a form that every provider takes
    approvals     the user's approvals: of a project's servers, and of the tools of all servers
    manager       all servers of a session, and the search for their tools
    server_state  state and offers of one server
    server        starts, stops and queries one server; the event loop of all servers
    supervisor    runs on the loop: starts a server, watches it, restarts it a limited number of times
    client        the handshake, our requests, and those of the server
    jsonrpc       JSON-RPC 2.0, read leniently
    stdio         runs a server's process
    http_transport  messages over HTTP, by the SDK
    oauth         logins to servers
    credentials   storage of logins
    tools         the tools, resources and prompts of servers, as a session uses them
    answers       reads answers block by block

Only config and approvals are loaded if no server is started. The SDK is imported for servers over HTTP only, on the
loop's thread; that takes half a second of CPU.
"""
