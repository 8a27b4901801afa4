"""What a verdict looks like to people and machines: HTML, JUnit, the console, sentences."""
