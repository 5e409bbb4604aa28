"""Code generators: they render loop programs and decide nothing."""
