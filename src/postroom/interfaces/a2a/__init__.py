"""A2A: the mailbox to clients of the Agent2Agent protocol. One agent of the house is one peer, named as the tenant.

A message sent to an agent is a task of its sender's: submitted when it is stored, working when the agent
acknowledged it, completed by its answer (a reply), input-required, rejected or failed by a reply with that priority,
cancelled by its sender's withdrawal. The context is the thread. Nothing is kept beside the log.
"""
