"""The PyTorch front end: exported programs (`torch.export.save`), read without PyTorch."""
