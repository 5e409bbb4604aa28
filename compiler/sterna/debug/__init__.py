"""Looking into models and bundles."""
