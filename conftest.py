"""Registers the plugin, nothing else."""

pytest_plugins = ["harness.plugin.main"]
