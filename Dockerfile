# Two images from one file: --target broker (controller, brokers, the command line) and --target spark
# (the same plus a JRE and the Spark jobs). BASE_IMAGE is any Debian with Python 3.11.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# For the package's one C file; compiler and headers stay in this stage.
RUN apt-get update -qq \
    && include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))') \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        gcc libc6-dev $([ -f "$include/Python.h" ] || echo python3-dev) >/dev/null \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/strandline && python3 -m venv /opt/build
# Requirements first: they change less often than the code, so their layers are kept.
COPY requirements/runtime.txt requirements/build.txt requirements/
RUN /opt/strandline/bin/pip install --quiet --require-hashes -r requirements/runtime.txt \
    && /opt/build/bin/pip install --quiet --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY proto proto
COPY runtime runtime
COPY broker broker
COPY client client
COPY spark_jobs spark_jobs
COPY cli cli
COPY chaos chaos
COPY console/strandline_console console/strandline_console
COPY bench bench
COPY tools/hatch_build.py tools/
# For the id of the build, since git's files stay outside; without it a digest of the sources names it.
ARG STRANDLINE_COMMIT=
RUN STRANDLINE_COMMIT=${STRANDLINE_COMMIT} /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${BASE_IMAGE} AS runtime
# A fixed number, so that a volume made by one build belongs to the user of the next.
RUN groupadd --gid 10001 strandline \
    && useradd --uid 10001 --gid strandline --home-dir /var/lib/strandline --no-log-init strandline \
    && install -d -o strandline -g strandline /var/lib/strandline /var/lib/strandline/data /tables
ENV PATH=/opt/strandline/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/strandline

FROM runtime AS broker
COPY --from=build /opt/strandline /opt/strandline
COPY --from=build /wheels /tmp/wheels
RUN pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps /tmp/wheels/*.whl
USER strandline
# SIGTERM is a controlled shutdown; the entry point is the process itself, so it gets the signal.
ENTRYPOINT ["python", "-m", "strandline_broker"]
CMD ["--help"]

FROM runtime AS spark
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        default-jre-headless procps >/dev/null \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/strandline /opt/strandline
COPY requirements/spark.txt /tmp/spark.txt
RUN pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/spark.txt
COPY --from=build /wheels /tmp/wheels
RUN pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps /tmp/wheels/*.whl
USER strandline
ENTRYPOINT ["strandline-spark"]
