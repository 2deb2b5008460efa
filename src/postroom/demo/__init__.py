"""`postroom demo`: the main job on real SMTP, in a temporary house, each step shown as it happens."""
