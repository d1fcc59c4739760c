"""Records and the store that keeps them."""
