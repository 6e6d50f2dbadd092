"""A web service that stores orders in a topic, and loses none when it is stopped.

    pip install 'strandline[broker,console]'     # or: strandline, starlette, uvicorn
    python web_service.py --port 8080
    curl --data '{"item": "tea"}' http://127.0.0.1:8080/customers/7/orders

A request is answered with 201 once its order is committed: no failover takes it back. SIGTERM stops
the service in order: it accepts no more requests, answers those that it has, and stops the
producer.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from strandline import Producer
from strandline.errors import StrandlineError

BOOTSTRAP = os.environ.get("STRANDLINE_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "orders"
ANSWER_MS = 10_000
"""A request waits no longer. The producer's own default is two minutes."""


async def take_order(request: Request) -> Response:
    producer: Producer = request.app.state.producer
    customer = request.path_params["customer"]
    try:
        done = await producer.send_and_wait(
            TOPIC, await request.body(), key=f"customer-{customer}".encode()
        )
    except StrandlineError as error:
        # Whether the caller may simply repeat the request depends on this flag.
        problem = {"error": str(error), "may_be_stored": error.may_have_been_written}
        return JSONResponse(problem, status_code=503, headers={"Retry-After": "1"})
    return JSONResponse({"partition": done.partition, "offset": done.offset}, status_code=201)


async def healthy(_: Request) -> Response:
    return Response("ok\n")


app = Starlette(
    routes=[
        Route("/customers/{customer}/orders", take_order, methods=["POST"]),
        Route("/healthz", healthy),
    ]
)


async def serve(host: str, port: int) -> None:
    """The producer starts before the first request, and stops after the last."""
    async with Producer(BOOTSTRAP, delivery_timeout_ms=ANSWER_MS) as producer:
        app.state.producer = producer
        with socket.create_server((host, port)) as listener:
            config = uvicorn.Config(
                app, lifespan="off", log_level="warning", timeout_graceful_shutdown=20
            )
            print(f"http://{host}:{listener.getsockname()[1]}", flush=True)
            await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    chosen = parser.parse_args()
    # uvicorn raises the signal once more when it has stopped in order. Stopping is what was asked.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        asyncio.run(serve(chosen.host, chosen.port))
    except StrandlineError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        pass
