"""One attention head against many of the same width, what they learn, and what is lost without them."""
