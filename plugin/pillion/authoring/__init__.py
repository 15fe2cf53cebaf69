"""From what authors write to specs: decorators, one adapter per SDK, manifests, translation. Knows the policy only."""
