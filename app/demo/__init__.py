"""The small data set of ``corrigenda up --demo``: a shop for outdoor gear, its agents, and what people said of them."""
