"""What a run stands on: Kafka, Java and toxiproxy (found or fetched), ports, memory, disk."""
