"""Pure decisions about GPUs: who runs on one now. Knows the contract; needs the standard library only."""
