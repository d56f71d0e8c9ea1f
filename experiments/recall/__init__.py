"""The bottleneck and the long path: what one vector holds, and what attention finds again."""
