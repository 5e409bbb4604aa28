"""What a bundle is, takes and gives, as one document of data (docs/report.md) and the page that draws it."""
