"""The Trainer of transformers, with a model whose loss is the mean of a batch, and a limit for gradients."""

from tiny import BATCH, OUTPUT, make_bert, make_texts, make_tokenizer, report
from transformers import BertForTokenClassification, DataCollatorForTokenClassification, Trainer, TrainingArguments

tokenizer = make_tokenizer()
data = [tokenizer(text) for text in make_texts(320)]
for row in data:
    row["labels"] = [word % 3 if word % 5 else -100 for word in row["input_ids"]]
model = BertForTokenClassification(make_bert(num_labels=3))
collator = DataCollatorForTokenClassification(tokenizer)

args = TrainingArguments(OUTPUT, per_device_train_batch_size=BATCH, max_steps=20, save_steps=5, logging_steps=5)
trainer = Trainer(model, args, train_dataset=data, data_collator=collator)
trainer.train()
trainer.save_model(OUTPUT)

report(model, trainer.state.log_history[-1]["train_loss"])
