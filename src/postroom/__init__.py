"""postroom gives AI agents mail behind one set of trust rules. The public names are few on purpose."""

__version__ = "0.1.0"
__all__ = ["__version__"]
