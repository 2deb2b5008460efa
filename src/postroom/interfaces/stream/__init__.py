"""The event log as a stream: the WebSocket of the AgentMail API."""
