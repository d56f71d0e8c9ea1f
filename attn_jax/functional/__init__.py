"""Pure mathematics: functions and values on arrays; no Flax."""
