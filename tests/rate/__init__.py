"""Ten thousand paid calls of eight processes at once, against a server that counts them."""
