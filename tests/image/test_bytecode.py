"""What an image leaves out: no task imports it, and what stays beside it works."""

from __future__ import annotations

import pytest

from tests.support.harness import run

# Written at the end of every process: `smoke` ends by os._exit, which calls nothing that was registered.
NOTED = """
import atexit, os, sys

def write():
    with open("/tmp/noted", "a") as file:
        for module in list(sys.modules.values()):
            cached = vars(module).get("__cached__") if hasattr(module, "__dict__") else None
            if isinstance(cached, str) and "/dist-packages/" in cached and not os.path.exists(cached):
                print(cached, file=file)

def leave(code, leave=os._exit):
    write()
    leave(code)

os._exit = leave
atexit.register(write)
"""
# What the example scripts and the metrics that they ask for import, and a look at every family of models.
IMPORTS = """
import accelerate.commands.launch, absl, datasets, evaluate, nltk, sacrebleu, torch.distributed.run
from rouge_score import rouge_scorer, scoring
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import classification_report
from sklearn.metrics import f1_score, matthews_corrcoef
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING, AutoModelForQuestionAnswering, AutoTokenizer,
    BartForConditionalGeneration, BertForSequenceClassification, DataCollatorForSeq2Seq, DistilBertForQuestionAnswering,
    GPT2LMHeadModel, MBartForConditionalGeneration, RobertaForMaskedLM, Seq2SeqTrainer, Seq2SeqTrainingArguments,
    T5ForConditionalGeneration, Trainer, XLNetForQuestionAnswering,
)
names = [list(mapping.keys()) for mapping in (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING)]
"""
ALL = f"""
mkdir /tmp/trace
cat > /tmp/trace/sitecustomize.py <<'END'
{NOTED}
END
cat > /tmp/imports.py <<'END'
{IMPORTS}
END
export PYTHONPATH=/tmp/trace
touch /tmp/noted
python3 /tmp/imports.py && multinode --nproc 2 smoke --bf16 && multinode doctor > /tmp/doctor
echo "without bytecode:" $(sort -u /tmp/noted)
"""
TABLES = """
import os
import datasets, pandas
rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
rows.to_parquet("/tmp/a.parquet"), rows.to_csv("/tmp/a.csv"), rows.to_json("/tmp/a.json"), rows.save_to_disk("/tmp/a")
kinds = ("parquet", "csv", "json")
same = [datasets.load_dataset(kind, data_files=f"/tmp/a.{kind}")["train"].to_dict() for kind in kinds]
same += [datasets.load_from_disk("/tmp/a").to_dict(), datasets.Dataset.from_pandas(pandas.DataFrame(same[0])).to_dict()]
print("tables", all(each == same[0] for each in same))
"""
# MPI_Allreduce of 1 and 2, with the numbers of MPICH's ABI for MPI_INT, MPI_SUM and MPI_COMM_WORLD (mpi.h).
REDUCE = """
import ctypes
mpi = ctypes.CDLL("/usr/local/lib/libmpi.so.12")
rank, mine, all_ = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
assert mpi.MPI_Init(None, None) == 0 and mpi.MPI_Comm_rank(0x44000000, ctypes.byref(rank)) == 0
mine.value = rank.value + 1
assert mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(all_), 1, 0x4C000405, 0x58000003, 0x44000000) == 0
print("sum", all_.value, flush=True)
mpi.MPI_Finalize()
"""


@pytest.mark.slow
def test_no_task_imports_a_module_without_bytecode(image: str) -> None:
    done = run(image, "bash", "-c", ALL, seconds=300)

    assert done.code == 0
    assert "smoke: passed" in done.out
    assert done.out.splitlines()[-1] == "without bytecode:"


@pytest.mark.slow
def test_tables_are_written_and_read(image: str) -> None:
    done = run(image, "python3", "-c", TABLES)

    assert done.code == 0
    assert "tables True" in done.out


def test_a_program_of_mpi_reduces_without_the_tables_of_single_processors(image: str) -> None:
    done = run(image, "mpirun", "-n", "2", "python3", "-c", REDUCE, options=["--env", "I_MPI_PLATFORM=spr"])

    assert done.code == 0
    assert sorted(done.out.split()) == ["3", "3", "sum", "sum"]
