"""Do the tests see it when a line of the code is changed? See campaign.py."""
