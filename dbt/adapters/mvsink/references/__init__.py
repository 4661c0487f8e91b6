"""Reading other relations as of one time: a model's references, and the past of a shard."""
