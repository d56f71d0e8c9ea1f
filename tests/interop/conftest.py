collect_ignore = ["placement.py"]  # a script
