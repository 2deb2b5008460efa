"""The AgentMail API at `/v0`: translate in, call one verb, translate out.

The only room with pydantic. What a request means lives in the office and the gate; here is only
how the wire spells it (spec of the official clients), so that those clients work unmodified.
"""
