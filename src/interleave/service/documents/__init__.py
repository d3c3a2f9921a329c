"""The document service: documents as jobs, behind OpenAI's Responses API and others."""
