"""A proxy of a server on this machine, through which everything arrives half a round trip later.

python slow_proxy.py PORT SECONDS prints its own port.
"""

import asyncio
import sys


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float) -> None:
    while content := await reader.read(65536):
        asyncio.get_running_loop().call_later(late, writer.write, content)
    asyncio.get_running_loop().call_later(late, writer.close)


async def main(port: int, trip: float) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back, trip / 2), carry(there, writer, trip / 2))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
