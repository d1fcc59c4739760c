"""What the options of a request take: names, limits, and words of their help."""

from __future__ import annotations

PROCESSES = "processes"
RAY = "ray"
SLURM = "slurm"
EXECUTORS = (PROCESSES, RAY, SLURM)
PACKAGES = {RAY: "ray", SLURM: "submitit"}
"""Executor -> the package that it needs; the extra has the executor's name."""
CLUSTER = "cluster"
LOCAL = "local"
"""``--slurm cluster=local`` starts the jobs on this machine, without Slurm."""
SETUP = "setup"
"""``--slurm setup=FILE``: lines of shell that every job of Slurm runs first, as ``module load
cuda``."""
SBATCH = "sbatch."
"""``--slurm sbatch.licenses=NAME``: any other option of sbatch."""
SLURM_PARAMETERS = (
    CLUSTER,
    "account",
    "constraint",
    "exclude",
    "gres",
    "partition",
    "qos",
    "reservation",
    SETUP,
    "time",
)
"""What ``--slurm`` takes: time in minutes, the file of :data:`SETUP`, the others as sbatch has
them."""
SLURM_MINUTES = 24 * 60
"""How long a job of Slurm may take unless ``--slurm time=`` says else; chosen by hand."""
SLURM_JOBS = 100
"""How many jobs are in Slurm's queue at a time where nobody says a number; chosen by hand."""
EPOCH_RULES = {"last": "", "best-on-dev": "dev", "best-on-half": "half"}
"""What --checkpoint takes -> the rule of selection in a cell."""
CHECKPOINT_OPTION_OF_RULE = {rule: option for option, rule in EPOCH_RULES.items()}
TF32 = "tf32"
PRECISIONS = ("fp32", TF32, "bf16")
RECIPES = ("common", "paper")
MASKED = "masked"
AUGMENTATIONS = (MASKED, "rules")
"""Ways to make further training rows; the place of one is a part of what seeds it."""
OUTPUT_FORMATS = {"fp32": "<f4", "fp16": "<f2"}
"""What --teacher-outputs takes -> numpy's name of such a number."""
EXACT = "exact"
FAST = "fast"
KERNELS = (EXACT, FAST)
NUMBERS = {"batch_size": (1, 4096), "max_length": (8, 4096), "micro_batch": (1, 4096)}
"""Numbers of the students' recipe that a request may set -> the least and the most. A teacher
keeps the recipe's."""
WHOLE_NUMBERS = ("max_train_rows", "corpus_tokens", "augment_times", "threads", "jobs")
"""Fields of a request that are whole numbers, or None."""
DIGITS = 9
"""Digits of a whole number that somebody types, at most."""
AUTO = "auto"
EMBEDDED = "embedded"
HUB = "hub"
SAMPLE = "sample"
HUB_TEACHER = "bert-base-uncased"
SOURCES = (
    "Where the examples come from: hub; sample (generated sentences); or a folder with "
    "<task>/<split>-00000-of-00001.parquet."
)
TEACHERS = (
    "The teacher: a name on the hub (also NAME@REVISION); a folder; or embedded (a small model "
    "from a package)."
)
IF_HUB = "if there is an accelerator, and the hub answers or they were downloaded before; else"
PACE = "pace"
"""``pace=2`` in a row multiplies its learning rate."""
