"""The decisions of the client library: pure machines without asyncio, gRPC, clocks or chance."""
