"""The front end of MXNet: a symbol (JSON) and its weights (`.params`)."""
