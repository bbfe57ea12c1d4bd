"""Texts to answers on one GPU: the whole recipe, embedding included, and where the time goes.

    python million.py --texts 1000000 --out results.json

Needs torch, numpy, tokenizers and safetensors. Inputs beside it: the compiled panel, wordllama's two files,
`inputs.json` (bank texts, calibration, 300 reference answers of the numpy recipe).
"""

import argparse
import json
import os
import re
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HERE = Path(__file__).parent
WORD = re.compile(r"[^\W\d_]+")
LEXICAL_SHARE, SMALLEST, LABELS_H, OUTSIDE_H = 0.5, 1e-12, 0.07, 0.05


def grams(word):
    padded = f" {word} "
    return [padded[i : i + n] for n in (3, 4, 5) for i in range(len(padded) - n + 1)]


def make_texts(bank, count, seed):
    """Windows of 15 words of the bank's texts, each with a number of its own: no two texts are the same."""
    rng = np.random.default_rng(seed)
    words = [t.split() for t in bank]
    which, where = rng.integers(len(words), size=count), rng.random(count)
    out = []
    for j, (i, w) in enumerate(zip(which.tolist(), where.tolist(), strict=False)):
        s = int(w * max(1, len(words[i]) - 15))
        out.append(" ".join(words[i][s : s + 15]) + f" case {j % 5000}")
    return out


def take_apart(texts):
    """Distinct pieces of some texts, their ids and ends: tokens split at blanks, then letter words."""
    out = []
    for split in (str.split, lambda text: WORD.findall(text.lower())):
        place, ids, ends = {}, [], [0]
        for text in texts:
            ids += [place.setdefault(word, len(place)) for word in split(text)]
            ends.append(len(ids))
        out += [list(place), np.array(ids, dtype=np.int32), np.array(ends, dtype=np.int32)]
    return out


def joined(parts, words_at, ids_at, ends_at):
    place, ids, ends, base = {}, [], [np.zeros(1, np.int64)], 0
    for part in parts:
        own = np.array([place.setdefault(w, len(place)) for w in part[words_at]] or [0], dtype=np.int64)
        ids.append(own[part[ids_at]])
        ends.append(part[ends_at][1:].astype(np.int64) + base)
        base = int(ends[-1][-1])
    return list(place), np.concatenate(ids), np.concatenate(ends)


@contextmanager
def timed(seconds, name, device):
    began = time.perf_counter()
    yield
    if device == "cuda":
        torch.cuda.synchronize()
    seconds[name] += time.perf_counter() - began


def comparison(arrays, prefix, vectors, own_rows, device, h):
    """What a case is compared with: places, embedded rows, weights."""
    a = {n[len(prefix) + 1 :]: v for n, v in arrays.items() if n.startswith(prefix + ".")}

    def t(x, d=torch.float32):
        return torch.as_tensor(np.ascontiguousarray(x), dtype=d, device=device)

    places = a["places"].astype(np.int64)
    unit = vectors[places].astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    centred = unit - a["mean"]
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    rows = own_rows[places]
    mean = rows.mean(axis=0)
    on = rows @ mean
    length = np.sqrt(np.maximum((rows**2).sum(1) - 2 * on + mean @ mean, 1e-12))
    labels = a["labels"].astype(np.int64)
    out = {
        "places": torch.as_tensor(places, device=device),
        "embedded": t(centred),
        "mean": t(a["mean"], torch.float64),
        "words_mean": t(mean),
        "mean_square": float(mean @ mean),
        "of_mean": t(on - mean @ mean),
        "length": t(length),
        "labels": torch.as_tensor(labels, device=device),
        "k": int(labels.max()) + 1,
        "bias": t(a["bias"], torch.float64),
        "h": h,
        "A": t(a["summary.lexical"]),
        "b": t(a["summary.bias"], torch.float64),
        "counts": t(np.bincount(labels), torch.float64),
    }
    if "joint.lexical" in a:
        out |= {
            "JA": t(a["joint.lexical"]),
            "JE": t(a["joint.embedded"]),
            "jb": t(a["joint.bias"], torch.float64),
        }
    return out


def see(c, met, words, square, embedded):
    on_mean = words @ c["words_mean"]
    length = (square - 2 * on_mean + c["mean_square"]).clamp_min(1e-12).sqrt()
    lexical = (met[:, c["places"]] - on_mean[:, None] - c["of_mean"]) / (c["length"] * length[:, None])
    lexical[square == 0] = 0
    e = embedded.double() - c["mean"]
    e = (e / e.norm(dim=1, keepdim=True).clamp_min(1e-12)).float()
    cosine = LEXICAL_SHARE * lexical + (1 - LEXICAL_SHARE) * (e @ c["embedded"].T)
    return lexical, e, cosine


def kernel(c, cosine):
    logit = cosine.double() / c["h"]
    top = logit.amax(1, keepdim=True)
    sums = torch.zeros(len(cosine), c["k"], dtype=torch.float64, device=cosine.device)
    sums.index_add_(1, c["labels"], (logit - top).exp())
    density = (sums / c["counts"]).clamp_min(1e-300).log() + c["bias"]
    return density.log_softmax(1).clamp_min(np.log(SMALLEST))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--out", default="results.json")
    parser.add_argument("--chunk", type=int, default=8192)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1)))
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    told = json.loads((HERE / "inputs.json").read_text())
    arrays = load_file(HERE / "panel.safetensors")
    reference = told["reference"]
    texts = [*reference["texts"], *make_texts(told["bank"], args.texts - len(reference["texts"]), 0)]
    seconds, loading = Counter(), time.perf_counter()
    clock = partial(timed, seconds, device=device)

    # ---- once per panel
    vocabulary = arrays["lexicon.vocabulary"].tobytes().decode().split("\n")
    column = {g: i for i, g in enumerate(vocabulary)}
    idf, V = arrays["lexicon.idf"], len(vocabulary)
    vectors = np.concatenate([arrays["vectors"], arrays["background"]])
    ends, cols = arrays["lexicon.ends"], arrays["lexicon.column"].astype(np.int64)
    own = np.zeros((len(ends) - 1, V))
    rowid = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    own[rowid, cols] = (1 + np.log(arrays["lexicon.count"].astype(float))) * idf[cols]
    own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
    labels = comparison(arrays, "labels", vectors, own, device, LABELS_H)
    others = comparison(arrays, "outside", vectors, own, device, OUTSIDE_H)
    own_t = torch.as_tensor(own.T.copy(), dtype=torch.float32, device=device)
    idf_t = torch.as_tensor(idf, dtype=torch.float32, device=device)
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    novel = torch.as_tensor(np.unique(unit.astype(np.float32), axis=0), device=device)
    n_labels, cal, nov = told["n_labels"], told["calibration"], told["novelty"]
    log_share = (others["counts"][n_labels:] / others["counts"][n_labels:].sum()).log()
    tokenizer = Tokenizer.from_file(str(HERE / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    weights = load_file(HERE / "l2_supercat_256.safetensors")["embedding.weight"]
    if device == "cuda":
        torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
        torch.cuda.synchronize()
    load_s = time.perf_counter() - loading

    # ---- texts to words, on the processor's cores
    began = time.perf_counter()
    with clock("words of texts (processor, all cores)"):
        step = -(-len(texts) // (4 * args.workers))
        shares = [texts[i : i + step] for i in range(0, len(texts), step)]
        with ProcessPoolExecutor(args.workers) as pool:
            parts = list(pool.map(take_apart, shares))
    with clock("words of all shares joined (processor, one core)"):
        words, ids, ends_w = joined(parts, 0, 1, 2)
        letters, lids, ends_l = joined(parts, 3, 4, 5)
    with clock("distinct words: tokens and grams (processor, one core)"):
        sums, counts = np.zeros((len(words), 256), np.float32), np.zeros(len(words), np.float32)
        for i, encoded in enumerate(tokenizer.encode_batch(words, add_special_tokens=False)):
            sums[i] = weights[np.clip(encoded.ids, 0, len(weights) - 1)].astype(np.float32).sum(axis=0)
            counts[i] = len(encoded.ids)
        found = [[column[g] for g in grams(w) if g in column] for w in letters]
        gram_row = np.repeat(np.arange(len(letters)), [len(f) for f in found])
        gram_col = np.fromiter((c for f in found for c in f), np.int64)
    with clock("copies to the device"):
        word_sums, word_counts = (torch.as_tensor(x, device=device) for x in (sums, counts))
        of_letters = torch.zeros(len(letters), V, device=device)
        of_letters.index_put_(
            (torch.as_tensor(gram_row, device=device), torch.as_tensor(gram_col, device=device)),
            torch.ones(len(gram_col), device=device),
            accumulate=True,
        )
        ids_t, lids_t = torch.as_tensor(ids, device=device), torch.as_tensor(lids, device=device)
        ends_wt, ends_lt = torch.as_tensor(ends_w, device=device), torch.as_tensor(ends_l, device=device)
    posterior = torch.empty(len(texts), n_labels, dtype=torch.float64, device=device)
    outside = torch.empty(len(texts), dtype=torch.float64, device=device)
    for start in range(0, len(texts), args.chunk):
        stop = min(len(texts), start + args.chunk)
        with clock("embedding"):
            e0, e1 = int(ends_w[start]), int(ends_w[stop])
            bag, many = (
                torch.nn.functional.embedding_bag(ids_t[e0:e1], of, ends_wt[start:stop] - e0, mode="sum")
                for of in (word_sums, word_counts[:, None])
            )
            z = bag / many.clamp_min(1)
            z = z / z.norm(dim=1, keepdim=True).clamp_min(1e-12)
        with clock("grams of texts"):
            l0, l1 = int(ends_l[start]), int(ends_l[stop])
            count = torch.nn.functional.embedding_bag(
                lids_t[l0:l1], of_letters, ends_lt[start:stop] - l0, mode="sum"
            )
            rows = torch.where(count > 0, 1 + count.clamp_min(1).log(), count) * idf_t
            rows /= rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
            square = (rows * rows).sum(1)
        with clock("lexical product"):
            met = rows @ own_t
        with clock("comparison with the labels"):
            lexical, e, cosine = see(labels, met, rows, square, z)
            likelihood = ((lexical @ labels["A"]).double() + labels["b"]).log_softmax(1) + kernel(
                labels, cosine
            )
            shift = torch.tensor(cal["shift"] or [0.0] * n_labels, dtype=torch.float64, device=device)
            inside = (cal["sharpness"] * likelihood + shift).softmax(1)
        with clock("none of these"):
            lexical, e, cosine = see(others, met, rows, square, z)
            evidence = (lexical @ others["A"]).double() + others["b"]
            pooled = evidence.log_softmax(1) + kernel(others, cosine)
            by_both = ((lexical @ others["JA"] + e @ others["JE"]).double() + others["jb"]).log_softmax(1)
            leads = []
            for score in (pooled, by_both):
                mixture = (score[:, n_labels:] + log_share).logsumexp(1)
                leads.append(mixture - score[:, :n_labels].amax(1))
            signs = torch.stack([*leads, -evidence[:, :n_labels].logsumexp(1)], dim=1)
            scale = cal["outside"]
            centre, spread = (
                torch.tensor(scale[n], dtype=torch.float64, device=device) for n in ("centre", "spread")
            )
            odds = cal["slope"] * (((signs - centre) / spread).mean(1) - scale["threshold"])
            distance = 1 - (z @ novel.T).topk(5, dim=1).values.double().mean(1)
            novelty = nov["slope"] * ((distance - nov["own"]) / nov["span"]) + nov["offset"]
            q = torch.sigmoid(torch.logaddexp(odds, novelty))
            outside[start:stop] = q
            posterior[start:stop] = (1 - q[:, None]) * inside + q[:, None] / n_labels
    with clock("answers back to the host"):
        found_p, found_q = posterior.cpu().numpy(), outside.cpu().numpy()
    total = time.perf_counter() - began
    m = len(reference["texts"])
    expected = np.array(reference["posterior"])
    result = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "texts": len(texts),
        "seconds": total,
        "us_per_text": 1e6 * total / len(texts),
        "load_s": load_s,
        "parts_s": dict(seconds),
        "distinct_words": len(words),
        "distinct_letter_words": len(letters),
        "workers": args.workers,
        "chunk": args.chunk,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else None,
        "against_numpy": {
            "texts": m,
            "posterior_max": float(np.abs(found_p[:m] - expected).max()),
            "out_of_class_max": float(np.abs(found_q[:m] - np.array(reference["out_of_class"])).max()),
            "other_label": int((found_p[:m].argmax(1) != expected.argmax(1)).sum()),
        },
        "mean_top": float(found_p.max(1).mean()),
        "mean_out_of_class": float(found_q.mean()),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
    }
    Path(args.out).write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
