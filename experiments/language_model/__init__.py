"""A GPT from scratch: text in, a model of it out, and what it writes."""
