"""The document service: jobs that answer requests with documents, as OpenAI's Responses API."""
