# An image with all commands of eqgrid, for CPUs or, with --build-arg EXTRAS=cuda,play, for NVIDIA
# GPUs: the wheels of JAX contain CUDA, and the host provides the driver.
ARG BASE=docker.io/library/python:3.12-slim
FROM ${BASE}
ARG EXTRAS=play
COPY . /opt/eqgrid
RUN pip install --no-cache-dir "/opt/eqgrid[${EXTRAS}]"
WORKDIR /work
CMD ["eqgrid", "--help"]
