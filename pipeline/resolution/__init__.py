"""Which names are one: rules, a judge's verdicts, a person's pins. Pure functions over names."""
