"""A BERT from scratch: words are hidden in a text, and it says which they were."""
