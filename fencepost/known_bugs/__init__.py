"""Known bugs of Kafka and of its clients, each with a run that shows it and a control. One TOML file for each bug."""
