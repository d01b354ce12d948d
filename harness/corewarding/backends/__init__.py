"""Engines that sample and train: one protocol, two implementations."""
