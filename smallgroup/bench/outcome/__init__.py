"""What searches are worth: what a search is compared with, and the data of the comparison."""
