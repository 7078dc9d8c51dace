"""The options of every command. What a command does is imported when it is called, after its input was checked."""
