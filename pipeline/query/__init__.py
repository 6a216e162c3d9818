"""Questions answered over the loaded stores: found, shown within a budget, answered, cited."""
