"""Banks of simulated descriptions: durable, verified, shareable."""

from simdx.bank.files import packaged_bank, problems_of, read_bank, read_manifest, write_bank
