"""SFTTrainer of trl, with LoRA of peft."""

from datasets import Dataset
from peft import LoraConfig
from tiny import BATCH, OUTPUT, make_llama, make_texts, make_tokenizer, report
from trl import SFTConfig, SFTTrainer

model, tokenizer = make_llama(), make_tokenizer()
data = Dataset.from_dict({"text": make_texts(320)})
lora = LoraConfig(r=4, lora_dropout=0.0, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")

args = SFTConfig(OUTPUT, bf16=False, per_device_train_batch_size=BATCH, max_steps=20, save_steps=5, logging_steps=5)
trainer = SFTTrainer(model, args, train_dataset=data, processing_class=tokenizer, peft_config=lora)
trainer.train()
trainer.save_model(OUTPUT)

report(trainer.model, trainer.state.log_history[-1]["train_loss"])
