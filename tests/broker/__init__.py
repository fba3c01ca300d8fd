"""Does each room of kafka_offsets/broker do what its module's first line says? A folder for a room."""
