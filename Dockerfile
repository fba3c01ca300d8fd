# A broker as an image: docker build -t kafka-offsets . && docker run --rm -p 9092:9092 kafka-offsets
# It takes the KAFKA_… variables of Kafka's images, and options of `kafka-offsets serve` as arguments.
FROM python:3.13-slim AS build
WORKDIR /source
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY kafka_offsets kafka_offsets
COPY pyspark_kafka_offsets pyspark_kafka_offsets
RUN python -m venv /opt/kafka-offsets && /opt/kafka-offsets/bin/pip install --no-cache-dir ".[fast,http]"

FROM python:3.13-slim
COPY --from=build /opt/kafka-offsets /opt/kafka-offsets
RUN useradd --create-home --uid 1000 kafka && install --directory --owner kafka /data
# Every interface, unless a variable says where: no variable of the image may contradict those of a compose file.
RUN echo "listeners=PLAINTEXT://:9092" > /opt/kafka-offsets/server.properties
ENV PATH=/opt/kafka-offsets/bin:$PATH
USER kafka
WORKDIR /data
EXPOSE 9092 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD ["kafka-offsets", "serve", "--config", "/opt/kafka-offsets/server.properties", "--env", "--ready"]
ENTRYPOINT ["kafka-offsets", "serve", "--config", "/opt/kafka-offsets/server.properties", "--env"]
