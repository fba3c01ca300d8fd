"""Do the tests see it when a line of coordinator/ is changed? See campaign.py."""
