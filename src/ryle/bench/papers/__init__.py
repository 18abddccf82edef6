"""What four papers published of their correlators, as data: a TOML file a paper, which `registry` reads and checks."""
