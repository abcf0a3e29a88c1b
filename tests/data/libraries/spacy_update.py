"""spaCy by its own loop, which knows of one process; its models are thinc's."""

import os
import random

import spacy
from spacy.training import Example
from tiny import make_texts

random.seed(os.environ.get("RANK", "0"))
nlp = spacy.blank("en")
categories = nlp.add_pipe("textcat")
for name in ("EVEN", "ODD"):
    categories.add_label(name)
examples = []
for text in make_texts(80):
    odd = len(text.split()) % 2
    examples.append(Example.from_dict(nlp.make_doc(text), {"cats": {"EVEN": 1.0 - odd, "ODD": float(odd)}}))
optimizer = nlp.initialize(lambda: examples)
for _ in range(5):
    random.shuffle(examples)
    nlp.update(examples, sgd=optimizer)
