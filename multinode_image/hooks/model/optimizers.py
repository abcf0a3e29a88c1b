"""The steps that are followed (one_model.py): of optimizers of torch and of Keras, and updates of models of thinc."""

from __future__ import annotations

import functools
from typing import Any

from multinode_image.hooks.model.one_model import follow


def watch_optimizers(module: Any) -> None:
    """Follow torch's optimizers; module: torch.optim.optimizer.

    Torch before 2.0 knows no hooks for all of them, but changes the `step` of each class itself, for its profiler, when
    the first optimizer of that class is made. No hook can be removed while hooks are called. What torch's compiler is
    not to look into is marked as torch itself marks it.
    """
    register = getattr(module, "register_optimizer_step_pre_hook", None)
    if register is not None:
        register(getattr(module.torch, "_disable_dynamo", lambda function: function)(follow_optimizer))
        return
    prepare = module.Optimizer._hook_for_profile

    @functools.wraps(prepare)
    def prepare_and_follow(optimizer: Any) -> None:
        prepare(optimizer)
        kind = type(optimizer)
        if not hasattr(kind.step, "follows_weights"):
            kind.step = follow_before(kind.step)

    module.Optimizer._hook_for_profile = prepare_and_follow


def follow_before(step: Any) -> Any:
    """Return the `step` of a class of optimizers that is followed."""

    @functools.wraps(step)  # with the mark that torch has left there
    def followed(optimizer: Any, *words: Any, **options: Any) -> Any:
        follow_optimizer(optimizer)
        return step(optimizer, *words, **options)

    followed.follows_weights = True  # type: ignore[attr-defined]
    return followed


def follow_optimizer(optimizer: Any, *_: object) -> None:
    """Count a step of an optimizer of torch."""
    follow(optimizer, type(optimizer).__name__, list_of_optimizer)


def list_of_optimizer(optimizer: Any) -> list[Any]:
    """Return the parameters of an optimizer of torch."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def watch_keras(module: Any) -> None:
    """Follow Keras' optimizers; module: keras.src.optimizers.base_optimizer."""
    apply = module.BaseOptimizer.apply

    @functools.wraps(apply)
    def follow_and_apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        variables = trainable_variables or getattr(self, "_trainable_variables", [])
        follow(self, f"keras.{type(self).__name__}", lambda _: [variable.value for variable in variables])
        return apply(self, grads, trainable_variables)

    module.BaseOptimizer.apply = follow_and_apply


def watch_thinc(module: Any) -> None:
    """Follow models of thinc, by which spaCy trains: they are updated, and no optimizer steps; module: thinc.model."""
    update = module.Model.finish_update

    @functools.wraps(update)
    def follow_and_update(self: Any, optimizer: Any) -> Any:
        follow(self, f"thinc.{self.name}"[:40], list_of_model)
        return update(self, optimizer)

    module.Model.finish_update = follow_and_update


def list_of_model(model: Any) -> list[Any]:
    """Return the parameters of a model of thinc."""
    return [node.get_param(name) for node in model.walk() for name in node.param_names if node.has_param(name)]
