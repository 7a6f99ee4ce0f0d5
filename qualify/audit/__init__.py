"""Audit of the bytes of wheels; nothing is installed, loaded or run.

Facts, a module a layer (`archive`, `record`, `fields`, `elf`, ... put together by `wheel`, and of
several wheels by `environment` and `closure`), are judged by policy, which is data (`policy`,
matrix/policy.toml), into findings (`judge_*`), whose words are data too (kinds.toml). `words`
shows them. docs/audit.md has the whole.
"""
