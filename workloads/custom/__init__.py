"""Pipelines of a user's, in any language: described in a file, and judged without their cooperation."""
