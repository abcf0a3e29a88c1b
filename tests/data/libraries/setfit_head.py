"""setfit, with a head of torch."""

import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer
from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments
from tiny import BATCH, OUTPUT, make_bert, make_texts, make_tokenizer, report
from torch import nn
from transformers import BertModel

with tempfile.TemporaryDirectory() as place:
    BertModel(make_bert()).save_pretrained(place)
    make_tokenizer().save_pretrained(place)
    body = SentenceTransformer(place)
model = SetFitModel(body, SetFitHead(in_features=32, out_features=2))
texts = make_texts(64)
data = Dataset.from_dict({"text": texts, "label": [len(text.split()) % 2 for text in texts]})

args = TrainingArguments(OUTPUT, batch_size=BATCH, num_epochs=(1, 2), max_steps=20, end_to_end=True, report_to="none")
Trainer(model, args, train_dataset=data).train()

report(nn.ModuleList([model.model_body, model.model_head]))
