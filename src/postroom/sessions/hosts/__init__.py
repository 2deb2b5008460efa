"""Session hosts: what runs an agent's sessions. Each implements `model.session.SessionHost`."""
