"""How a verdict is shown to people and machines: HTML, JUnit XML, and lines on the console."""
