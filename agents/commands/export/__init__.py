"""The command that writes a world as a page without a server."""

from ._export_page import export_page_command as export_page_command
