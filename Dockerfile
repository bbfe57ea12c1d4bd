# simdx in a container. Three targets share one recipe and differ in the extras they carry:
#
#   docker build --target cpu    -t simdx:0.1.0 .          the service, core install
#   docker build --target worker -t simdx:0.1.0-worker .   a Ray node for `simdx scale`
#   docker build --target cuda   -t simdx:0.1.0-cuda .     both, with torch for a GPU
#
# Every package, the build tools among them, is installed by its SHA-256 in requirements/lock.txt
# (requirements/install.sh). Nothing is compiled, and wordllama has a wheel for linux/amd64 only: so has simdx
# an image. The CUDA libraries come with torch's wheels; the host brings only the driver (NVIDIA container
# toolkit).
#
# The base is named by the digest of its index: docs/howto/images.md says where that is from and how to move it.

ARG PYTHON=python:3.11.17-slim-bookworm@sha256:0a310eeecf4e1f5a0743f9a6520c90c88d089c903ca5fd283f501e3a805f5f89

FROM ${PYTHON} AS source
WORKDIR /build
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY requirements requirements
COPY src src

FROM source AS cpu-build
RUN sh requirements/install.sh /opt/simdx service,openai

FROM source AS worker-build
RUN sh requirements/install.sh /opt/simdx service,openai,scale

FROM source AS cuda-build
RUN sh requirements/install.sh /opt/simdx service,openai,sentence,scale -c requirements/lock-cuda.txt

FROM ${PYTHON} AS base
# libgomp: OpenMP of the embedded llama.cpp and of torch. The base's own pip and setuptools are old and unused.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get upgrade -y \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && python -m pip uninstall --yes --root-user-action ignore wheel setuptools pip \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/simdx --shell /usr/sbin/nologin simdx \
    && install -d -o simdx -g simdx /var/lib/simdx /var/lib/simdx/service /var/cache/simdx
ENV PATH=/opt/simdx/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SIMDX_DATA=/var/lib/simdx/service \
    SIMDX_HOME=/var/cache/simdx \
    RAY_USAGE_STATS_ENABLED=0 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    DO_NOT_TRACK=1
# What must not be lost, and what can be fetched again.
VOLUME ["/var/lib/simdx", "/var/cache/simdx"]
WORKDIR /home/simdx
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["simdx"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]

FROM base AS worker
COPY --from=worker-build /opt/simdx /opt/simdx
# KubeRay's probes call wget.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends wget procps \
    && rm -rf /var/lib/apt/lists/*
USER 10001
# A Ray node is started by KubeRay, not as a service of ours.
HEALTHCHECK NONE
ENTRYPOINT []
CMD ["bash"]

FROM base AS cuda
COPY --from=cuda-build /opt/simdx /opt/simdx
# Triton builds its launchers with a C compiler when a kernel is first used.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev wget \
    && rm -rf /var/lib/apt/lists/*
USER 10001

# Last, so that a plain `docker build .` makes it.
FROM base AS cpu
COPY --from=cpu-build /opt/simdx /opt/simdx
USER 10001
