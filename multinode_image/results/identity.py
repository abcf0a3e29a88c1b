"""What a run is known by: all that was typed, in the words of the newest release, and the files that it names.

Only what is known to change nothing in what is trained is left out. A task's arguments have names, and their order says
nothing; of a user's script every word counts, in its order: what follows a flag may belong to it or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.files import is_path, read_file
from multinode_image.machine.image import Stack
from multinode_image.printing.secrets import hide, hide_text, is_secret
from multinode_image.reading import is_no
from multinode_image.tasks.aliases import ALIASES, Flag, is_among, plain, split_flags, translate
from multinode_image.tasks.arguments import is_file, name_flags, read_argfile
from multinode_image.tasks.defaults import OUTPUT_DIR

FLAG, OVERWRITE = "resume_from_checkpoint", "overwrite_output_dir"
OUTPUTS = (OUTPUT_DIR, "out_dir", "save_dir", "results_dir")
# Arguments that change nothing in what is trained: where results go, what is said of them, how fast they are made, and
# which node this is (transformers/training_args.py, and the arguments of the examples); and how others begin. Those of
# the first part are switches: what follows one of them and is no truth value is a word of its own.
SWITCHES = f"""
{OVERWRITE} overwrite_cache save_on_each_node enable_jit_checkpoint disable_tqdm with_tracking use_cpu no_cuda
dataloader_pin_memory dataloader_persistent_workers push_to_hub hub_private_repo hub_always_push log_on_each_node
logging_first_step logging_nan_inf_filter ddp_find_unused_parameters ddp_broadcast_buffers ddp_static_graph
gradient_checkpointing activation_checkpointing
""".split()
NO_EFFECT = f"""
{" ".join((*OUTPUTS, *SWITCHES))} {FLAG} cache_dir save_total_limit report_to run_name per_device_eval_batch_size
preprocessing_num_workers dataloader_num_workers dataloader_prefetch_factor gradient_checkpointing_kwargs
activation_checkpointing_kwargs hub_model_id hub_strategy hub_token hub_revision push_to_hub_model_id
push_to_hub_organization push_to_hub_token logging_dir logging_strategy logging_steps log_level log_level_replica
log_dir log_file log_interval ddp_backend ddp_bucket_cap_mb ddp_timeout
rank local_rank node_rank machine_rank master_addr master_port
""".split()
# A release that knows every new word of tasks/aliases.py, and none of the old ones.
NEWEST = Stack("", "99.0", "", "gloo", None, "")
# Bytes that a file of settings has at most; of a larger one, such as data, the size counts.
SETTINGS = 1 << 20
YES = ("true", "1", "yes", "on", "t", "y")

# A name, empty for a word behind no flag, and a value; a flag without one is True, as in a file of arguments.
Pair = tuple[str, str]


def identify_task(arguments: Mapping[str, object], kind: str) -> tuple[Pair, ...]:
    """Return the arguments of a task, whichever release they were written for; kind: of tasks/aliases.py."""
    flags = [Flag(name, () if value is True else (str(value),)) for name, value in arguments.items()]
    newest = name_flags(translate(flags, NEWEST, ALIASES[kind], os.path.isdir).flags)
    pairs = ((name, str(value)) for name, value in sorted(newest.items()) if not is_among(name, NO_EFFECT))
    return tuple(hide_secrets(pairs))


def identify_script(words: list[str]) -> tuple[Pair, ...]:
    """Return the arguments of a user's script, or those in a JSON file that has them all."""
    flags = split_flags(hide(words))
    if is_file(words) and len(words) == 1:
        try:
            flags = read_argfile(words[0], read_file)
        except Refusal:  # it may take any file
            pass
    return tuple(hide_secrets(pair for flag in flags for pair in list_pairs(flag)))


def list_pairs(flag: Flag) -> Iterable[Pair]:
    """Yield a flag with its first value, and each word behind that, if they have an effect."""
    name, values = plain(flag.name), flag.values
    follows = is_among(name, SWITCHES) and values[:1] != () and not (is_no(values[0]) or values[0].lower() in YES)
    count = 0 if follows or not name else 1
    if name and not is_among(name, NO_EFFECT):
        yield name, values[0] if values[:count] else "True"
    for value in values[count:]:
        yield "", value


def hide_secrets(pairs: Iterable[Pair]) -> Iterable[Pair]:
    """Yield what is no secret, and of the rest what is none in it."""
    return ((name, hide_text(value)) for name, value in pairs if not (name and is_secret(name, value)))


def digest_files(pairs: Iterable[Pair]) -> dict[str, str]:
    """Return a digest of each file that is typed: `b.cfg`, `--config b.cfg`, or `config=b.cfg`."""
    values = {part for _, value in pairs for part in (value, value.partition("=")[2], *value.split())}
    return {path: digest for path in sorted(values) if (digest := digest_file(path))}


def digest_file(path: str) -> str:
    """Return a digest of a file, or its size where it is no file of settings; empty for what cannot be read."""
    if not path or not is_path(path) or not os.path.isfile(path):
        return ""
    import hashlib  # few command lines name a file

    try:
        with open(path, "rb") as file:
            content = file.read(SETTINGS + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return ""
    return f"{size} bytes" if len(content) > SETTINGS else hashlib.sha256(content).hexdigest()[:16]


def compare_pairs(there: Iterable[Pair], here: Iterable[Pair]) -> list[str]:
    """List what differs between two command lines, as it is typed."""
    before, now = list(there), list(here)
    if before == now:
        return []
    differences = []
    for name in sorted({name for name, _ in (*before, *now)}):
        old, new = (" ".join(value for key, value in side if key == name) for side in (before, now))
        if old != new:
            noun = f"--{name}" if name else "the words"
            differences.append(f"{noun} {old or 'not set'} there, {new or 'not set'} here")
    return differences or ["the same words in another order"]
