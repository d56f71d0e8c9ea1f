"""Images classified by patches, by windows and by convolutions, with gates and without."""
