"""The checker: every mistake in a pipeline or a compiled spec, with its place and what to do about it."""

from pillion.check.checker import check_documents, check_file, check_text

__all__ = ["check_documents", "check_file", "check_text"]
