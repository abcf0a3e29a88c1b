"""The tasks: a name for each example script of transformers, with the defaults of its documentation."""

from __future__ import annotations

from entrypoint.tasks.media import MEDIA
from entrypoint.tasks.task import ACCELERATE, BATCH, EVAL, OTHER, TRAIN, WITHOUT_EVAL, Task, any_of, given_other

LENGTH_384 = "--max_seq_length 384 --doc_stride 128"
SQUAD = BATCH + "--learning_rate 3e-5 --num_train_epochs 2 " + LENGTH_384
THREE = BATCH.format(32) + "--learning_rate 2e-5 --num_train_epochs 3"
WIKITEXT = "--dataset_name Salesforce/wikitext --dataset_config_name wikitext-2-raw-v1 "
# A model is trained from scratch where the user names none to go on from.
SCRATCH = {"model_name_or_path": any_of("model_type", "config_name", "config_overrides")}
# These scripts evaluate with a part of the file to train with, if there is no other.
SPLITS = {**SCRATCH, "do_eval": WITHOUT_EVAL}
LM = WIKITEXT + TRAIN + BATCH.format(8) + EVAL.format(8)
FIM = "--model_name_or_path openai-community/gpt2 --fim_rate 0.5 --fim_spm_rate 0.2 "
NEWS = (
    "--model_name_or_path google-t5/t5-small --dataset_name abisee/cnn_dailymail --dataset_config_name 3.0.0 "
    "--source_prefix summarize:~ "
)
# The prefixes are those of T5, which has learned each of its languages with another (examples/pytorch/translation).
OF_T5 = given_other("model_name_or_path", than="t5")
SUMMARIZE = {"source_prefix": (OF_T5,)}
TO_ROMANIAN = {
    "source_prefix": (OF_T5, given_other("source_lang", than="en"), given_other("target_lang", than="ro")),
}
# Without it these scripts ask for None beams, with which generate() ends in a TypeError after the first epoch.
ONE_BEAM = "--num_beams 1 "
ROMANIAN = "--source_lang en --target_lang ro --dataset_name wmt/wmt16 --dataset_config_name ro-en "
# The script wants both, and loads any model as the type that it is given.
GPT2 = {
    "model_type": (given_other("model_name_or_path", than="gpt2"),),
    "model_name_or_path": (given_other("model_type", than="gpt2"),),
}
QA, TEXT, WORDS = "question-answering/run_", "text-classification/run_", "language-modeling/run_"

# qa has the defaults of the Hugging Face guide to distributed CPUs, the others those of the example's own README, at
# the newest commit that could be read (huggingface/transformers 70179949, 2025-12-19), without what only uploads,
# logs or wants a GPU; data sets have the names that eras.py says, and ner has one without the script that datasets 4
# loads no more. A ~ is a space within one value.
TASKS = {
    "qa": Task(
        QA + "qa.py",
        "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name rajpurkar/squad " + TRAIN
        + SQUAD.format(12),
        "extractive question answering",
    ),
    "qa-no-trainer": Task(
        QA + "qa_no_trainer.py",
        "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name rajpurkar/squad " + SQUAD.format(12),
        "extractive question answering",
        ACCELERATE,
    ),
    "qa-beam": Task(
        QA + "qa_beam_search.py",
        "--model_name_or_path xlnet/xlnet-large-cased --dataset_name rajpurkar/squad " + TRAIN + SQUAD.format(4) + " "
        + EVAL.format(4) + "--save_steps 5000",
        "extractive question answering, beam search",
    ),
    "qa-beam-no-trainer": Task(
        QA + "qa_beam_search_no_trainer.py",
        "--model_name_or_path xlnet/xlnet-large-cased --dataset_name rajpurkar/squad " + SQUAD.format(4) + " "
        + EVAL.format(4),
        "extractive question answering, beam search",
        ACCELERATE,
    ),
    "qa-seq2seq": Task(
        QA + "seq2seq_qa.py",
        "--model_name_or_path google-t5/t5-small --dataset_name rajpurkar/squad_v2 --context_column context "
        "--question_column question --answer_column answers " + TRAIN + SQUAD.format(12),
        "generative question answering",
    ),
    "glue": Task(
        TEXT + "glue.py",
        "--model_name_or_path google-bert/bert-base-cased --task_name mrpc " + TRAIN + "--max_seq_length 128 " + THREE,
        "sentence pairs of the GLUE benchmark",
    ),
    "glue-no-trainer": Task(
        TEXT + "glue_no_trainer.py",
        "--model_name_or_path google-bert/bert-base-cased --task_name mrpc --max_length 128 " + THREE,
        "sentence pairs of the GLUE benchmark",
        ACCELERATE,
    ),
    "classification": Task(
        TEXT + "classification.py",
        "--model_name_or_path google-bert/bert-base-uncased --dataset_name stanfordnlp/imdb --metric_name accuracy "
        "--text_column_names text --label_column_name label --shuffle_train_dataset " + TRAIN + "--max_seq_length 512 "
        + BATCH.format(32) + "--learning_rate 2e-5 --num_train_epochs 1",
        "classification of any text",
        since=(4, 32),
    ),
    "xnli": Task(
        TEXT + "xnli.py",
        "--model_name_or_path google-bert/bert-base-multilingual-cased --language de --train_language en " + TRAIN
        + "--max_seq_length 128 " + BATCH.format(32) + "--learning_rate 5e-5 --num_train_epochs 2",
        "inference across languages",
    ),
    "ner": Task(
        "token-classification/run_ner.py",
        "--model_name_or_path google-bert/bert-base-uncased --dataset_name lhoestq/conll2003 " + TRAIN,
        "named entities",
    ),
    "ner-no-trainer": Task(
        "token-classification/run_ner_no_trainer.py",
        "--model_name_or_path google-bert/bert-base-cased --dataset_name lhoestq/conll2003 --task_name ner "
        "--max_length 128 " + THREE,
        "named entities",
        ACCELERATE,
    ),
    "mlm": Task(WORDS + "mlm.py", "--model_name_or_path FacebookAI/roberta-base " + LM, "masked words", unless=SPLITS),
    "mlm-no-trainer": Task(
        WORDS + "mlm_no_trainer.py", "--model_name_or_path FacebookAI/roberta-base " + WIKITEXT, "masked words",
        ACCELERATE, unless=SCRATCH,
    ),
    "clm": Task(WORDS + "clm.py", "--model_name_or_path openai-community/gpt2 " + LM, "next words", unless=SPLITS),
    "clm-no-trainer": Task(
        WORDS + "clm_no_trainer.py", "--model_name_or_path openai-community/gpt2 " + WIKITEXT, "next words",
        ACCELERATE, unless=SCRATCH,
    ),
    "plm": Task(
        WORDS + "plm.py", "--model_name_or_path xlnet/xlnet-base-cased " + LM, "words in any order", unless=SPLITS
    ),
    "fim": Task(WORDS + "fim.py", FIM + LM, "words in the middle", since=(4, 39), unless=SPLITS),
    "fim-no-trainer": Task(
        WORDS + "fim_no_trainer.py", FIM + WIKITEXT, "words in the middle", ACCELERATE, (4, 39), SCRATCH
    ),
    "swag": Task(
        "multiple-choice/run_swag.py",
        "--model_name_or_path FacebookAI/roberta-base " + TRAIN + "--learning_rate 5e-5 --num_train_epochs 3 "
        + BATCH.format(16) + EVAL.format(16),
        "multiple choice",
    ),
    "swag-no-trainer": Task(
        "multiple-choice/run_swag_no_trainer.py",
        "--model_name_or_path google-bert/bert-base-cased --dataset_name allenai/swag --max_seq_length 128 " + THREE,
        "multiple choice",
        ACCELERATE,
    ),
    "summarization": Task(
        "summarization/run_summarization.py",
        NEWS + "--predict_with_generate " + TRAIN + BATCH.format(4) + EVAL.format(4),
        "summaries of news",
        unless=SUMMARIZE,
    ),
    "summarization-no-trainer": Task(
        "summarization/run_summarization_no_trainer.py", NEWS + ONE_BEAM, "summaries of news", ACCELERATE,
        unless=SUMMARIZE,
    ),
    "translation": Task(
        "translation/run_translation.py",
        "--model_name_or_path google-t5/t5-small --source_prefix translate~English~to~Romanian:~ " + ROMANIAN
        + "--predict_with_generate " + TRAIN + BATCH.format(4) + EVAL.format(4),
        "English to Romanian",
        unless=TO_ROMANIAN,
    ),
    "translation-no-trainer": Task(
        "translation/run_translation_no_trainer.py",
        "--model_name_or_path Helsinki-NLP/opus-mt-en-ro " + ROMANIAN + ONE_BEAM,
        "English to Romanian",
        ACCELERATE,
    ),
    "generation": Task(
        "text-generation/run_generation.py",
        "--model_type gpt2 --model_name_or_path openai-community/gpt2",
        "text from a prompt",
        OTHER,
        unless=GPT2,
    ),
    **MEDIA,
}  # fmt: skip
