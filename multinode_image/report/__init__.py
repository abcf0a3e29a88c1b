"""The command `report`: a page with the curves of trainings, from what they have left in their directories."""
