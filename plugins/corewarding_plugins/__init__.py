"""The built-in reward methods. Each enters through the same door as anybody else's plug-in."""
