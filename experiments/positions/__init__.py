"""How a model knows where its tokens stand, and what becomes of that beyond where it was trained."""
