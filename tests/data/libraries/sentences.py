"""Sentence-transformers, with the other examples of a batch as negatives."""

import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from tiny import BATCH, OUTPUT, make_bert, make_texts, make_tokenizer, report
from transformers import BertModel

with tempfile.TemporaryDirectory() as place:
    BertModel(make_bert()).save_pretrained(place)
    make_tokenizer().save_pretrained(place)
    model = SentenceTransformer(place)
texts = make_texts(640)
data = Dataset.from_dict({"anchor": texts[:320], "positive": texts[320:]})

args = SentenceTransformerTrainingArguments(
    OUTPUT, per_device_train_batch_size=BATCH, max_steps=20, save_steps=5, logging_steps=5
)
loss = MultipleNegativesRankingLoss(model)
trainer = SentenceTransformerTrainer(model, args, train_dataset=data, loss=loss)
trainer.train()
model.save_pretrained(OUTPUT)

report(model, trainer.state.log_history[-1]["train_loss"])
