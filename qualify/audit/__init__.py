"""Audit of a wheel's bytes; nothing is installed, loaded or run.

Facts, a module a layer (`archive`, `record`, `fields`, `elf`, put together by `wheel`), are
judged by policy, which is data (`policy`, matrix/policy.toml), into findings (`judge_*`), whose
words are data too (kinds.toml). `words` shows them. docs/audit.md has the whole.
"""
