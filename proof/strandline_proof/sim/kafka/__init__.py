"""Clients of simulated runs that speak Kafka's protocol: frames made by kafka-python."""
