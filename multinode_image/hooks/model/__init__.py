"""Whether all ranks train one model: a proof by samples of its weights."""
