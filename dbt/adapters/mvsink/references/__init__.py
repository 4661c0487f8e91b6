"""Reading other relations as of one time: what a model references, and the past that a query asks
for.
"""
