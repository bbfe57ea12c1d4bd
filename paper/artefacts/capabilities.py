"""The paper's Table S9 says that no variant has every capability. Here the table is generated: each variant is fitted
to a packaged bank and asked. What counts: a posterior over labels (rows that sum to one), one over the simplex, the
split of its uncertainty, another prior in the next call of the same fitted object, whether an answer needs a run of
the sampler (it then leaves a trace), and whether a batch is answered in one pass."""

from collections.abc import Iterator

from paper.answers import ABI, D_SMC, M_SMC
from paper.cells import NONE
from paper.measures import sampler
from paper.measures.sampler import ABI_PRIOR, PROBED, VARIANTS
from paper.spec import Artefact, Block, Table, as_one, of_tuples
from paper.theirs import quote

THEIRS = (M_SMC, D_SMC, ABI)
HEADS = {
    "posterior_over_labels": "posterior over labels", "posterior_over_simplex": "posterior over the simplex",
    "uncertainty_split": "aleatoric–epistemic split", "prior_at_test_time": "prior at test time",
    "sampler_per_case": "a run of the sampler per case", "single_forward_pass": "one pass for a batch",
}
YES = {True: "yes", False: "no", None: NONE}


def printed(key: str, name: str) -> bool | None:
    found = quote("capabilities", key, method=name)
    return None if found is None else bool(found.value)


def rows(b: Block) -> Iterator[tuple[str, ...]]:
    for key, title in HEADS.items():
        yield title, *(YES[b.d[name][key]] for name in VARIANTS), *(YES[printed(key, name)] for name in THEIRS)
    yield "time per case", *(f"{b.d[name]['seconds_per_case'] * 1e6:.0f} µs" for name in VARIANTS), *NONE * len(THEIRS)


def claims(b: Block) -> Iterator[str]:
    able = [name for name in VARIANTS if all(b.d[name][key] for key in HEADS if key != "sampler_per_case")]
    yield (f"The paper's trade-off (no variant has every capability) does not bind: {', '.join(able)} have all of them "
           "and need no run of a sampler." if able else "No variant has every capability.")
    if differing := [f"{name}: {title} {YES[b.d[name][key]]}, in the paper {YES[printed(key, name)]}"
                     for name in THEIRS for key, title in HEADS.items()
                     if printed(key, name) not in (None, b.d[name][key])]:
        yield "Unlike the paper: " + "; ".join(differing) + "."
    if b.d[ABI_PRIOR]["prior_at_test_time"] and not b.d[ABI]["prior_at_test_time"]:
        yield ("ABI as the paper trains it refuses another prior; the same network told of the prior in training takes "
               "any, so a test-time prior is a choice of training and no limit of amortisation.")


ARTEFACT = Artefact(
    "What each variant can do, asked of the code itself (table S9)", 370, sampler.capabilities, each=as_one,
    tables=(Table("Capabilities of the variants, from the code", rows,
                  of_tuples("capability", *VARIANTS, *(f"{name}, paper" for name in THEIRS)),
                  f"Probed on {PROBED} cases of {{panel}} with the packaged bank, embeddings given. M-SMC and D-SMC "
                  "without further words are the closed forms; 'particles' is the sampler; the recipe is the front "
                  "door (`--method auto`), whose simplex posterior is D-SMC's."),),
    claims=claims,
)
