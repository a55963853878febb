# No container engine with a base image was at hand when this was written: it is linted (hadolint), and its pip steps
# were run by hand outside a container, but the image itself has not been built.
FROM python:3.13-slim-trixie AS build
WORKDIR /src
COPY requirements-build.lock requirements-runtime.lock ./
RUN python -m venv /build \
    && /build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements-build.lock \
    && python -m venv --without-pip /app \
    && /build/bin/pip --python /app/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
       -r requirements-runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY autoscaler autoscaler
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /build/bin/pip --python /app/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.13-slim-trixie
LABEL org.opencontainers.image.title="inference-autoscaler" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/app/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /app /app
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["autoscaler"]
CMD ["run"]
