"""What Python's libraries make of a model folder of Grouper's. Exits with an error if it is not what Grouper says.

    peer.py check FOLDER        read an exported folder with safetensors (0.8) and compare it with its grouper-manifest.json
    peer.py write FOLDER OUT    write random tensors, two files of them, with the names, types and shapes of FOLDER's, and print their digests
    peer.py run FOLDER ASK      load a folder with transformers and compare tokens, prompts and greedy completions with those in ASK:
                                {"texts": [{"text", "ids"}], "chats": [{"messages", "text"}], "greedy": [{"prompt", "tokens"}]}
"""
import hashlib
import json
import os
import shutil
import sys

# Names of element types in digests, and those that safetensors takes when it writes.
NAMES = {"F32": "Float32", "BF16": "BFloat16"}
SPECS = {"F32": "float32", "BF16": "bfloat16"}


def digest(dtype, shape, data):
    head = f"{NAMES[dtype]} [{' '.join(map(str, shape))}]\0"
    return hashlib.sha256(head.encode() + bytes(data)).hexdigest()


def index(folder):
    path = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return json.load(f)


def read(folder):
    """All tensors: name -> (file, dtype, shape, data)."""
    import safetensors

    out = {}
    for name in sorted(f for f in os.listdir(folder) if f.endswith(".safetensors")):
        with open(os.path.join(folder, name), "rb") as f:
            for tensor, view in safetensors.deserialize(f.read()):
                assert tensor not in out, f"{tensor} is in {out[tensor][0]} and in {name}"
                out[tensor] = (name, view["dtype"], view["shape"], view["data"])
    return out


def check(folder):
    from safetensors.numpy import load_file

    with open(os.path.join(folder, "grouper-manifest.json")) as f:
        manifest = json.load(f)
    tensors = read(folder)
    want = {t["name"]: (t["file"], t["dtype"], t["shape"], t["sha256"]) for t in manifest["tensors"]}
    got = {name: (file, dtype, shape, digest(dtype, shape, data)) for name, (file, dtype, shape, data) in tensors.items()}
    for name in sorted(set(want) | set(got)):
        assert want.get(name) == got.get(name), f"{name}: manifest {want.get(name)}, file {got.get(name)}"
    files = sorted({t[0] for t in got.values()})
    listing = index(folder)
    if listing is None:
        assert files == ["model.safetensors"], files
    else:
        assert listing["weight_map"] == {name: t[0] for name, t in got.items()}, "weight_map"
        assert listing["metadata"]["total_size"] == sum(len(t[3]) for t in tensors.values()), "total_size"
    for file in files:  # as users read them; numpy has no bfloat16
        if {t[1] for t in tensors.values() if t[0] == file} == {"F32"}:
            for name, array in load_file(os.path.join(folder, file)).items():
                assert (list(array.shape), array.tobytes()) == (tensors[name][2], bytes(tensors[name][3])), name
    for file in manifest["files"]:
        with open(os.path.join(folder, file["name"]), "rb") as f:
            data = f.read()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["size"], file["sha256"]), file["name"]
    print(f"{len(got)} tensors in {len(files)} files, {sorted({t[1] for t in got.values()})}")


def write(folder, out):
    import numpy
    import safetensors

    os.makedirs(out)
    for name in os.listdir(folder):
        if name != "grouper-manifest.json" and ".safetensors" not in name:
            shutil.copy(os.path.join(folder, name), out)
    random = numpy.random.default_rng(5)
    shards, digests, where = [{}, {}], {}, {}
    arrays = []  # which must live until they are written
    for i, (name, (_, dtype, shape, data)) in enumerate(sorted(read(folder).items())):
        array = random.integers(0, 256, len(data), dtype=numpy.uint8)
        array[1::2] &= 0xBF  # no exponent of ones alone
        arrays.append(array)
        shards[i % 2][name] = safetensors.TensorSpec(
            dtype=SPECS[dtype], shape=shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
        digests[name] = digest(dtype, shape, array.tobytes())
        where[name] = f"model-{i % 2 + 1:05}-of-00002.safetensors"
    for i, shard in enumerate(shards):
        safetensors.serialize_file(shard, os.path.join(out, f"model-{i + 1:05}-of-00002.safetensors"), {"format": "pt"})
    with open(os.path.join(out, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)
    print(json.dumps(digests))


def run(folder, ask):
    import torch
    import transformers

    # Closer logits than these may change places between two implementations in float32.
    tie = 1e-4
    with open(ask) as f:
        ask = json.load(f)
    loader = transformers.AutoModelForCausalLM
    model, info = loader.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for kind, found in info.items():
        assert not found, f"{kind}: {found}"
    model.eval()
    ties = 0
    with torch.no_grad():
        for i, case in enumerate(ask["greedy"]):
            prompt, tokens = case["prompt"], case["tokens"]
            logits = model(torch.tensor([prompt + tokens[:-1]])).logits[0, len(prompt) - 1:]
            for k, token in enumerate(tokens):
                best = int(logits[k].argmax())
                gap = float(logits[k, best] - logits[k, token])
                assert gap <= tie, f"prompt {i}, token {k} is {token}, transformers has {best}, by {gap}"
                ties += best != token
    if ask["texts"]:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        for case in ask["texts"]:
            ids = tokenizer(case["text"], add_special_tokens=False)["input_ids"]
            assert ids == case["ids"], f"{case['text']!r}: {ids}, Grouper has {case['ids']}"
        for case in ask["chats"]:
            text = tokenizer.apply_chat_template(case["messages"], tokenize=False, add_generation_prompt=True)
            assert text == case["text"], f"{text!r}, Grouper has {case['text']!r}"
    tokens = sum(len(c["tokens"]) for c in ask["greedy"])
    print(f"{type(model).__name__}: {tokens} greedy tokens ({ties} ties), {len(ask['texts'])} texts, {len(ask['chats'])} prompts")


if __name__ == "__main__":
    {"check": check, "write": write, "run": run}[sys.argv[1]](*sys.argv[2:])
