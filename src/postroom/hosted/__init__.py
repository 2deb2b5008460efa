"""AgentMail's own service, or another postroom, as the house's email: the second backend of `Mail`."""
