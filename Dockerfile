FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY app app
COPY workers workers
RUN python -m venv /opt/corrigenda \
    && /opt/corrigenda/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt .

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/corrigenda corrigenda \
    && install -d -o corrigenda -g corrigenda /var/lib/corrigenda/metrics
COPY --from=build /opt/corrigenda /opt/corrigenda
ENV PATH=/opt/corrigenda/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    CORRIGENDA_HOST=0.0.0.0 \
    CORRIGENDA_METRICS_DIR=/var/lib/corrigenda/metrics
USER corrigenda
WORKDIR /var/lib/corrigenda
EXPOSE 8400
ENTRYPOINT ["corrigenda"]
CMD ["api"]
