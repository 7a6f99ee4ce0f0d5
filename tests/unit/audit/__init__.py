"""Mirrors qualify/audit/. What is wrong with whole wheels: tests/integration/broken_wheels/."""
