"""Telemetry that a user already has: tables of nvidia-smi and dcgmi, and what NCCL printed."""
