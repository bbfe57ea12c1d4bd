# simdx in a container. Three targets share one recipe and differ in the extras they carry:
#
#   docker build --target cpu    -t simdx:0.1.0 .          the service, core install
#   docker build --target worker -t simdx:0.1.0-worker .   a Ray node for `simdx scale`
#   docker build --target cuda   -t simdx:0.1.0-cuda .     both, with torch for a GPU
#
# Every Python version comes from requirements/constraints.txt. The CUDA libraries come with torch's
# wheels; the host brings only the driver (NVIDIA container toolkit).

FROM python:3.11.9-slim-bookworm AS source
WORKDIR /build
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY requirements requirements
COPY src src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/simdx

FROM source AS cpu-build
RUN /opt/simdx/bin/pip install -c requirements/constraints.txt '.[service,openai]'

FROM source AS worker-build
# Object stores other than local folders are fsspec packages of their own, e.g. STORES="s3fs gcsfs".
ARG STORES=""
RUN /opt/simdx/bin/pip install -c requirements/constraints.txt '.[service,openai,scale]' ${STORES}

FROM source AS cuda-build
ARG STORES=""
RUN /opt/simdx/bin/pip install -c requirements/constraints.txt '.[service,openai,sentence,scale]' ${STORES}

FROM python:3.11.9-slim-bookworm AS base
# libgomp: OpenMP of the embedded llama.cpp and of torch.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/simdx --shell /usr/sbin/nologin simdx \
    && install -d -o simdx -g simdx /var/lib/simdx /var/lib/simdx/service /var/cache/simdx
ENV PATH=/opt/simdx/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SIMDX_DATA=/var/lib/simdx/service \
    SIMDX_HOME=/var/cache/simdx \
    RAY_USAGE_STATS_ENABLED=0
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
