# counterfoil-log, or counterfoil-witness, in a container. No key, configuration or token is in an image: mount the directory of
# the log, or of the witness, below /data.
#
#   docker build -t counterfoil-log .
#   docker run --rm -v counterfoil:/data counterfoil-log init --dir /data/log --origin log.example/agents --listen 0.0.0.0:8080
#   docker run -d --name log --read-only --cap-drop ALL --security-opt no-new-privileges --stop-timeout 60 \
#       -p 8080:8080 -v counterfoil:/data counterfoil-log
#
#   docker build -t counterfoil-witness --target witness .
#   docker run --rm -v witness:/data counterfoil-witness init --dir /data/w --name witness.example/w1 --listen 0.0.0.0:7380
#   docker run --rm -v witness:/data counterfoil-witness log add VKEY URL --config /data/w/config.toml
#   docker run -d --name witness --read-only --cap-drop ALL --security-opt no-new-privileges --stop-timeout 60 \
#       -p 7380:7380 -v witness:/data counterfoil-witness
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package counterfoil-log-server --bin counterfoil-log \
    --package counterfoil-witness --bin counterfoil-witness

FROM debian:bookworm-slim AS base
# Certificates, for logs and witnesses that are reached over https: the newest there are, so no version is pinned.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 counterfoil \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin counterfoil \
    && install --directory --owner counterfoil --group counterfoil --mode 0700 /data
USER 10001:10001
VOLUME ["/data"]
STOPSIGNAL SIGTERM

FROM base AS witness
COPY --from=build /src/target/release/counterfoil-witness /usr/local/bin/counterfoil-witness
EXPOSE 7380
ENTRYPOINT ["/usr/local/bin/counterfoil-witness"]
CMD ["serve", "--config", "/data/w/config.toml", "--log-format", "json"]

# The last one is what is built when none is named.
FROM base AS log
COPY --from=build /src/target/release/counterfoil-log /usr/local/bin/counterfoil-log
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/counterfoil-log"]
CMD ["serve", "--config", "/data/log/config.toml", "--log-format", "json"]
