"""The tasks for images and speech: their packages are in an image only if they were asked for."""

from __future__ import annotations

from entrypoint.tasks.task import ACCELERATE, BATCH, EVAL, TRAIN, Task, any_of, given_other

EACH_EPOCH = "--eval_strategy epoch --save_strategy epoch --save_total_limit {} --seed 1337"
BEST = "--load_best_model_at_end True " + EACH_EPOCH.format(3)
CIFAR10 = "--dataset_name uoft-cs/cifar10 "
ADE20K = (
    "--model_name_or_path facebook/mask2former-swin-tiny-coco-instance --dataset_name qubvel-hf/ade20k-mini "
    "--do_reduce_labels --image_height 256 --image_width 256 --num_train_epochs 40 --learning_rate 1e-5 "
    "--lr_scheduler_type constant --gradient_accumulation_steps 2 " + BATCH.format(8)
)
DETR = (
    "--model_name_or_path facebook/detr-resnet-50 --dataset_name rishitdagli/cppe-5 --num_train_epochs 100 "
    "--image_square_size 600 --learning_rate 5e-5 " + BATCH.format(8)
)
TURKISH = (
    "--dataset_name mozilla-foundation/common_voice_17_0 --dataset_config_name tr --text_column_name sentence "
    "--length_column_name input_length " + TRAIN
)
SPEECH = "--eval_strategy steps --save_steps 400 --eval_steps 100 --layerdrop 0.0 --save_total_limit 3 "
FROM_MODEL = {"model_type": any_of("model_name_or_path")}
# What is true of the data set of the defaults only.
OWN = any_of("dataset_name")
OF_ADE20K = {"do_reduce_labels": OWN}
OF_HINDI = {
    "language": (*OWN, given_other("dataset_config_name", than="hi")),
    "train_split_name": OWN,
    "eval_split_name": OWN,
}
OF_TURKISH = {"target_language": (*OWN, given_other("dataset_config_name", than="tr"))}
IMAGES, VOICE = "image-pretraining/run_", "speech-recognition/run_speech_recognition_"

# Defaults as in tasks.py.
MEDIA = {
    "image-classification": Task(
        "image-classification/run_image_classification.py",
        "--dataset_name AI-Lab-Makerere/beans --label_column_name labels --remove_unused_columns False " + TRAIN
        + "--learning_rate 2e-5 --num_train_epochs 5 " + BATCH.format(8) + EVAL.format(8) + BEST,
        "classification of images",
        since=(4, 37),
    ),
    "image-classification-no-trainer": Task(
        "image-classification/run_image_classification_no_trainer.py",
        CIFAR10 + "--image_column_name img",
        "classification of images",
        ACCELERATE,
        (4, 37),
    ),
    "mae": Task(
        IMAGES + "mae.py",
        CIFAR10 + "--remove_unused_columns False --label_names pixel_values --mask_ratio 0.75 "
        "--norm_pix_loss " + TRAIN + "--base_learning_rate 1.5e-4 --lr_scheduler_type cosine --weight_decay 0.05 "
        "--num_train_epochs 800 --warmup_steps 0.05 " + BATCH.format(8) + EVAL.format(8) + BEST,
        "masked autoencoder of images",
    ),
    "mim": Task(
        IMAGES + "mim.py",
        CIFAR10 + "--model_type vit --remove_unused_columns False --label_names bool_masked_pos " + TRAIN
        + "--learning_rate 2e-5 --weight_decay 0.05 --num_train_epochs 100 " + BATCH.format(8) + EVAL.format(8) + BEST,
        "masked images",
        unless=FROM_MODEL,
    ),
    "mim-no-trainer": Task(
        IMAGES + "mim_no_trainer.py",
        CIFAR10 + "--model_type vit --learning_rate 2e-5 --weight_decay 0.05 --num_train_epochs 100 "
        + BATCH.format(8) + EVAL.format(8) + "--seed 1337",
        "masked images",
        ACCELERATE,
        unless=FROM_MODEL,
    ),
    "clip": Task(
        "contrastive-image-text/run_clip.py",
        "--dataset_name ydshieh/coco_dataset_script --dataset_config_name 2017 --image_column image_path "
        "--caption_column caption --remove_unused_columns False " + TRAIN + BATCH.format(64) + EVAL.format(64)
        + "--learning_rate 5e-5 --weight_decay 0.1",
        "images and their captions; --model_name_or_path and --data_dir have to be given",
    ),
    "semantic-segmentation": Task(
        "semantic-segmentation/run_semantic_segmentation.py",
        "--model_name_or_path nvidia/mit-b0 --dataset_name segments/sidewalk-semantic --remove_unused_columns False "
        + TRAIN + "--max_steps 10000 --learning_rate 0.00006 --lr_scheduler_type polynomial "
        + BATCH.format(8) + EVAL.format(8) + "--eval_strategy epoch --save_strategy epoch --seed 1337",
        "what each pixel of an image shows",
    ),
    "semantic-segmentation-no-trainer": Task(
        "semantic-segmentation/run_semantic_segmentation_no_trainer.py",
        "--model_name_or_path nvidia/mit-b0 --dataset_name segments/sidewalk-semantic",
        "what each pixel of an image shows",
        ACCELERATE,
    ),
    "instance-segmentation": Task(
        "instance-segmentation/run_instance_segmentation.py",
        ADE20K + TRAIN + "--eval_strategy epoch --save_strategy epoch --save_total_limit 2",
        "outlines of things in images",
        since=(4, 42),
        unless=OF_ADE20K,
    ),
    "instance-segmentation-no-trainer": Task(
        "instance-segmentation/run_instance_segmentation_no_trainer.py", ADE20K, "outlines of things in images",
        ACCELERATE, (4, 42), OF_ADE20K,
    ),
    "object-detection": Task(
        "object-detection/run_object_detection.py",
        DETR + TRAIN + "--weight_decay 1e-4 --remove_unused_columns False --eval_do_concat_batches False "
        "--ignore_mismatched_sizes True --metric_for_best_model eval_map --greater_is_better True "
        "--load_best_model_at_end True " + EACH_EPOCH.format(2),
        "things in images",
        since=(4, 41),
    ),
    "object-detection-no-trainer": Task(
        "object-detection/run_object_detection_no_trainer.py",
        DETR + EVAL.format(8) + "--checkpointing_steps epoch --ignore_mismatched_sizes",
        "things in images",
        ACCELERATE,
        (4, 41),
    ),
    "audio-classification": Task(
        "audio-classification/run_audio_classification.py",
        "--model_name_or_path facebook/wav2vec2-base --dataset_name superb --dataset_config_name ks "
        "--remove_unused_columns False " + TRAIN + "--learning_rate 3e-5 --max_length_seconds 1 --attention_mask False "
        "--warmup_steps 0.1 --num_train_epochs 5 --gradient_accumulation_steps 4 " + BATCH.format(32) + EVAL.format(32)
        + "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end True --metric_for_best_model accuracy "
        "--save_total_limit 3 --seed 0",
        "spoken commands",
    ),
    "ctc": Task(
        VOICE + "ctc.py",
        "--model_name_or_path facebook/wav2vec2-large-xlsr-53 " + TURKISH + "--num_train_epochs 15 "
        "--gradient_accumulation_steps 2 --learning_rate 3e-4 --warmup_steps 500 --freeze_feature_encoder "
        "--gradient_checkpointing " + SPEECH + BATCH.format(16),
        "speech to text",
    ),
    "ctc-adapter": Task(
        VOICE + "ctc_adapter.py",
        "--model_name_or_path facebook/mms-1b-all --target_language tur " + TURKISH + "--num_train_epochs 4 "
        "--learning_rate 1e-3 --warmup_steps 100 " + BATCH.format(32)
        + "--eval_strategy steps --save_steps 200 --eval_steps 100 --save_total_limit 3",
        "speech to text, only the adapters",
        since=(4, 31),
        unless=OF_TURKISH,
    ),
    "speech-seq2seq": Task(
        VOICE + "seq2seq.py",
        "--model_name_or_path openai/whisper-small --dataset_name mozilla-foundation/common_voice_11_0 "
        "--dataset_config_name hi --language hindi --task transcribe --train_split_name train+validation "
        "--eval_split_name test --max_steps 5000 --gradient_accumulation_steps 2 --learning_rate 1e-5 "
        "--warmup_steps 500 --eval_strategy steps --eval_steps 1000 --save_strategy steps --save_steps 1000 "
        "--generation_max_length 225 --max_duration_in_seconds 30 --text_column_name sentence "
        "--freeze_feature_encoder False --gradient_checkpointing --predict_with_generate " + TRAIN
        + BATCH.format(16) + EVAL.format(16),
        "speech to text, encoder and decoder",
        unless=OF_HINDI,
    ),
    "wav2vec2-no-trainer": Task(
        "speech-pretraining/run_wav2vec2_pretraining_no_trainer.py",
        "--dataset_name openslr/librispeech_asr --dataset_config_names clean clean "
        "--dataset_split_names validation test "
        "--model_name_or_path patrickvonplaten/wav2vec2-base-v2 --max_train_steps 20000 --num_warmup_steps 32000 "
        "--gradient_accumulation_steps 8 --learning_rate 0.005 --weight_decay 0.01 --max_duration_in_seconds 20.0 "
        "--min_duration_in_seconds 2.0 --logging_steps 1 --saving_steps 10000 --adam_beta1 0.9 --adam_beta2 0.98 "
        "--adam_epsilon 1e-06 --gradient_checkpointing --mask_time_prob 0.65 --mask_time_length 10 "
        + BATCH.format(8) + EVAL.format(8),
        "speech without its text",
        ACCELERATE,
    ),
}  # fmt: skip
