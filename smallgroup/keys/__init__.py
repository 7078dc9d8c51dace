"""The keys of a config as users write them: short and long forms, recipes below them, files, names and help."""
