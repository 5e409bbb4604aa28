"""Random networks of one to four random layers, made and run by the framework that a format comes from."""
