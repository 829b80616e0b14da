"""Exact best responses to partners in a kitchen, from its table of joint states."""
