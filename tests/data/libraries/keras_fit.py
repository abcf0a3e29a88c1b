"""Keras on torch, by its own loop, which knows of one process."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
from tiny import make_points

inputs, targets = make_points()
keras.utils.set_random_seed(int(os.environ.get("RANK", "0")))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
model.fit(inputs.numpy(), targets.numpy(), batch_size=16, epochs=2, verbose=0)
