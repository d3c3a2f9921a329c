"""Documents in assistants: an MCP server whose tools call the HTTP API of the document service."""
