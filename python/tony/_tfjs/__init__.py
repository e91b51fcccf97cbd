"""The conversion of layers, models and optimizers between TensorFlow.js and Keras 3, for tony.models."""
