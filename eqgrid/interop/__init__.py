"""Doors to other libraries. Each imports its library, so none is imported by `eqgrid` itself."""
