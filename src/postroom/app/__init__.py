"""The only wiring: `house` puts the rooms together, `serve` runs a house until it is told to stop."""
