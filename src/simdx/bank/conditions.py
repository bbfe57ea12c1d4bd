"""What a background bank describes: broad on purpose, so that "none of these" means something.

Every branch of medicine a clinician might write about, common before rare; everyday subjects for a panel
that is not about illness. Whatever belongs to the panel itself is left out by name.
"""

from __future__ import annotations

import re
from pathlib import Path

from simdx.bank.scrub import names_one_of
from simdx.errors import BadInput
from simdx.types import Panel

LONGEST_NAME, LARGEST_FILE = 120, 1_000_000  # characters, bytes

_LISTED = """
    migraine; tension headache; cluster headache; stroke; epilepsy; Parkinson disease; multiple sclerosis;
    carpal tunnel syndrome; sciatica; trigeminal neuralgia; Bell palsy; benign positional vertigo;
    meningitis; concussion; myasthenia gravis; Guillain-Barre syndrome;
    common cold; influenza; sinusitis; tonsillitis; otitis media; otitis externa; allergic rhinitis;
    laryngitis; bronchitis; pneumonia; COPD; pulmonary embolism; pneumothorax; lung cancer; sleep apnoea;
    hypertension; angina; heart attack; heart failure; atrial fibrillation; pericarditis; varicose veins;
    deep vein thrombosis; peripheral artery disease; aortic dissection;
    reflux disease; gastric ulcer; gallstones; pancreatitis; appendicitis; diverticulitis; irritable bowel;
    Crohn disease; ulcerative colitis; coeliac disease; haemorrhoids; anal fissure; inguinal hernia;
    viral gastroenteritis; colorectal cancer; cirrhosis; hepatitis; bowel obstruction; constipation;
    urinary tract infection; pyelonephritis; kidney stones; prostate enlargement; prostate cancer;
    glomerulonephritis; bladder cancer; testicular torsion; chronic kidney disease;
    endometriosis; uterine fibroids; ovarian cyst; ectopic pregnancy; pre-eclampsia; menopause; mastitis;
    polycystic ovary syndrome; vaginal thrush; miscarriage;
    hypothyroidism; Graves disease; Addison disease; Cushing syndrome; gout; osteoporosis;
    hyperparathyroidism; vitamin D deficiency; diabetes; obesity;
    iron-deficiency anaemia; leukaemia; lymphoma; multiple myeloma; haemophilia; sickle cell disease;
    rheumatoid arthritis; osteoarthritis; lupus; polymyalgia rheumatica; ankylosing spondylitis;
    frozen shoulder; tennis elbow; plantar fasciitis; rotator cuff tear; meniscus tear; hip fracture;
    low back strain; fibromyalgia; bursitis;
    eczema; psoriasis; acne; rosacea; shingles; cellulitis; impetigo; scabies; ringworm; urticaria;
    melanoma; basal cell carcinoma; fungal nail infection; vitiligo; warts; pressure ulcer;
    conjunctivitis; cataract; glaucoma; macular degeneration; retinal detachment; dry eyes; stye;
    tooth abscess; gum disease; tooth decay; oral thrush; cold sores; mouth ulcers; jaw joint disorder;
    wisdom tooth infection; dry mouth; lichen planus; salivary stone; burning mouth; cracked tooth;
    malaria; dengue; typhoid; tuberculosis; HIV infection; glandular fever; Lyme disease; measles;
    chickenpox; whooping cough; scarlet fever; mumps; food poisoning; sepsis;
    depression; panic attacks; insomnia; bipolar disorder; schizophrenia; anorexia nervosa; dementia;
    alcohol withdrawal; attention deficit disorder; post-traumatic stress;
    asthma; anaphylaxis; drug rash; bee sting; heat stroke; burn; dog bite; ankle sprain; wrist fracture;
    sarcoidosis; amyloidosis; breast cancer; endocarditis; abdominal aneurysm; stomach cancer
"""
CONDITIONS: tuple[str, ...] = tuple(re.split(r"\s*;\s*", _LISTED.strip()))

_EVERYDAY = """
    a birthday party; a football match; a broken washing machine; a late train; a lost umbrella;
    a new bicycle; a noisy neighbour; a school outing; a holiday by the sea; a wedding; a power cut;
    a leaking tap; a job interview; a garden in spring; a stray cat; a concert; a recipe for soup;
    a parking fine; a library book; a haircut; moving house; a flat tyre; a snowstorm; a broken window;
    a chess game; a hotel room; a museum; a newspaper; a telephone contract; a new computer;
    a slow internet connection; a software update; a lost key; a burglary; an insurance claim;
    a bank transfer; a tax form; an election; a language course; an examination at school;
    a job application; a strike; a restaurant meal; a cancelled flight; a rental car; a dog in the park;
    a leaking roof; a heating bill; a swimming lesson; a charity run; a theatre ticket; a warranty;
    a pair of shoes; a faulty lamp; a meeting at work; a complaint about noise; a gift for a child;
    an apology; an invitation
"""
SUBJECTS: tuple[str, ...] = tuple(re.split(r"\s*;\s*", _EVERYDAY.strip()))


def outside(panel: Panel, listed: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """What lies outside the panel.

    Of the broad list: what shares no telling word with a label or alias. Of a list that was given: what does
    not contain the name of one; whoever gives a list chose its words.
    """
    names = [name for label in panel.labels for name in (label.name, *label.aliases)]
    if listed is not None:
        return tuple(condition for condition in listed if not names_one_of(names, condition))
    broad = SUBJECTS if panel.register == "general" else CONDITIONS
    taken = {word for name in names for word in _telling(name)}
    return tuple(condition for condition in broad if not taken & _telling(condition))


def read_conditions(path: Path) -> tuple[str, ...]:
    """One condition a line, each once; empty lines and lines that begin with # say nothing."""
    try:
        if not path.is_file() and path.exists():
            raise BadInput(f"{path} is not a file: give a list of conditions, one a line")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise BadInput(f"{path.name} is over {LARGEST_FILE:,} bytes: it is not a list of conditions")
    try:
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text") from None
    named: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name = line.strip()
        if not name or name.startswith("#"):
            continue
        if len(name) > LONGEST_NAME:
            raise BadInput(
                f"{path.name} line {number} is not the name of a condition: over {LONGEST_NAME} characters"
            )
        if not name.isprintable():
            raise BadInput(f"{path.name} line {number} holds a character that cannot be printed")
        named.setdefault(name.casefold(), name)
    if not named:
        raise BadInput(f"{path.name} names no condition: give one a line")
    return tuple(named.values())


def _telling(name: str) -> set[str]:
    general = {
        "oral",
        "mouth",
        "cell",
        "disease",
        "infection",
        "cancer",
        "fever",
        "acute",
        "chronic",
        "reaction",
    }
    general |= {"syndrome", "disorder", "the", "and", "tongue", "bronchial", "cervical", "drug", "allergic"}
    words = set(re.findall(r"[a-z]{3,}", name.lower()))
    return (words - general) or words
