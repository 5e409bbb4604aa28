"""What several tests share: models and kernels to try, hosts that run them, references, programs of this machine."""
