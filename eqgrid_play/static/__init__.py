"""Pages that play without a server: a world and its policies as ONNX (extra `[onnx]`)."""

from ._export_page import export_page_command as export_page_command
