"""The report's charts, as SVG."""
