"""Writes a web page with a world and a policy, on which people can play without a server.

python experiments/export_page.py experiments/policies/cramped.safetensors --out page/ \
    --runtime node_modules/onnxruntime-web/dist
"""

from eqgrid_lab.static import export_page_command

if __name__ == "__main__":
    export_page_command()
