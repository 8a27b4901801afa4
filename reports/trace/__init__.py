"""What happened to one record, one transaction or around one fault: the three witnesses' words, in order of time."""
