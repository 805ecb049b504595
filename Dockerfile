# counterfoil-log in a container. No key, configuration or token is in the image: mount the log's directory at /data.
#
#   docker build -t counterfoil-log .
#   docker run --rm -v counterfoil:/data counterfoil-log init --dir /data/log --origin log.example/agents --listen 0.0.0.0:8080
#   docker run -d --name log --read-only --cap-drop ALL --security-opt no-new-privileges --stop-timeout 60 \
#       -p 8080:8080 -v counterfoil:/data counterfoil-log
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package counterfoil-log-server --bin counterfoil-log

FROM debian:bookworm-slim
# Certificates, for witnesses that are reached over https: the newest there are, so no version is pinned.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 counterfoil \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin counterfoil \
    && install --directory --owner counterfoil --group counterfoil --mode 0700 /data
COPY --from=build /src/target/release/counterfoil-log /usr/local/bin/counterfoil-log
USER 10001:10001
VOLUME ["/data"]
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/counterfoil-log"]
CMD ["serve", "--config", "/data/log/config.toml", "--log-format", "json"]
