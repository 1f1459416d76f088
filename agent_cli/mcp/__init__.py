"""MCP servers: their tools, resources and prompts in a session, and our own tools for other programs.

    sources     which servers there are, and with which words of the environment filled in
    approvals   what a user agreed to: definitions of a project's servers, and the tools of all of them
    servers     all servers of a session, and what the session may ask of them
    server      one server: its state, what it offers, calls to it
    keeping     on the loop: bring it up, keep it, start it anew a bounded number of times
    sdk         the door of the SDK's client; serving is the door of its server
    terms, logins, logging_in, redirects, oauth    logins to servers: what is declared, kept, and done for one
    pipes       a server's process and its streams, bounded; http is the same for what is reached by a URL
    tools, results, finding, forms, words    what a turn sees of all this

Only sources and approvals are loaded where no server is to be started. The SDK takes half a second of CPU to import:
that is paid on the loop's own thread, when the first server starts.
"""
