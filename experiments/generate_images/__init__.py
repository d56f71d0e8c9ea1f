"""Images said pixel by pixel: how many bits they take, and what comes of drawing them."""
