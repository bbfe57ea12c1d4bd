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

# What some of them are like, for models that only repeat a name: one of every branch and more.
_FINDINGS = """
    stroke: sudden weakness of one arm and one side of the face, slurred speech
    epilepsy: sudden loss of awareness with jerking of the limbs, a bitten tongue, confusion afterwards
    Parkinson disease: trembling of one hand at rest, stiff slow movements, small steps
    carpal tunnel syndrome: numb tingling fingers at night, shaking the hand helps, weak grip
    sciatica: shooting pain from the lower back down one leg, numb foot, worse on sitting
    Bell palsy: one side of the face droops, the eye does not close, taste is lost
    benign positional vertigo: brief spinning on turning over in bed, sickness, no loss of hearing
    concussion: dazed after a blow to the head, forgetful, sleepy, tired of light
    tonsillitis: sore throat with fever, painful swallowing, white spots on swollen tonsils
    otitis externa: itching painful ear canal after swimming, discharge, pain on pulling the ear
    bronchitis: cough with phlegm after a cold, wheezing, mild fever
    pneumonia: high fever with shaking chills, cough with rusty phlegm, pain on breathing in
    pulmonary embolism: sudden shortness of breath, sharp chest pain, a swollen calf
    pneumothorax: sudden one-sided chest pain, short of breath, after coughing or lifting
    angina: tight chest on climbing stairs, gone after rest, spreads to the left arm
    heart attack: crushing chest pain for an hour, sweating, pain in jaw and arm
    heart failure: short of breath when lying flat, swollen ankles, tired
    atrial fibrillation: irregular racing heartbeat, light-headed, tired
    varicose veins: knotted bulging veins on the leg, heavy aching legs by evening
    deep vein thrombosis: one calf swollen, warm and tender, after a long journey
    reflux disease: burning behind the breastbone after meals, sour taste, worse on bending
    gallstones: cramps below the right ribs after fatty meals, pain in the shoulder blade, sickness
    pancreatitis: severe pain in the upper belly boring through to the back, vomiting, after alcohol
    appendicitis: pain that moved from the navel to the lower right belly, fever, no appetite
    diverticulitis: pain in the lower left belly, fever, changed bowel habit
    irritable bowel: bloating and cramps relieved by passing stool, loose stools by turns with hard ones
    ulcerative colitis: bloody diarrhoea many times a day, urgency, cramps
    haemorrhoids: bright red blood on the paper, an itching lump at the back passage
    inguinal hernia: a bulge in the groin on lifting, aching, it slips back on lying down
    viral gastroenteritis: vomiting and watery diarrhoea for two days, cramps, others at home ill too
    constipation: hard stools twice a week, straining, a bloated belly
    urinary tract infection: burning on passing water, going every half hour, cloudy urine
    kidney stones: waves of pain from the flank to the groin, cannot keep still, blood in the urine
    prostate enlargement: weak stream of urine, getting up at night, dribbling
    endometriosis: severe cramps before and during periods, pain during sex, pelvic pain
    uterine fibroids: heavy long periods, pressure in the lower belly, tiredness
    ectopic pregnancy: missed period, one-sided pelvic pain, spotting, faintness
    menopause: hot flushes, night sweats, irregular periods, poor sleep
    hypothyroidism: always cold, gaining weight, dry skin, slow and tired
    Graves disease: losing weight while eating well, trembling, bulging eyes, racing heart
    gout: sudden red hot swollen big toe at night, the sheet on it is unbearable
    iron-deficiency anaemia: pale and tired, short of breath on stairs, brittle nails
    leukaemia: bruises without a blow, repeated infections, pale and tired
    rheumatoid arthritis: stiff swollen finger joints on both hands, worst in the morning for an hour
    osteoarthritis: knee pain on walking, eased by rest, creaking, stiff for some minutes
    polymyalgia rheumatica: aching stiff shoulders and hips on both sides, hard to rise in the morning
    frozen shoulder: shoulder that cannot be lifted or turned, pain at night
    tennis elbow: pain on the outer elbow on gripping, after painting or racket sport
    plantar fasciitis: stabbing heel pain with the first steps in the morning
    hip fracture: fall on the side, cannot stand, the leg is short and turned out
    low back strain: back pain after lifting, stiff muscles, better on lying down
    eczema: itching dry red patches in the bends of elbows and knees, worse in winter
    psoriasis: red plaques with silvery scales on elbows and scalp
    acne: blackheads and pimples on face and back, scars
    shingles: burning band of blisters on one side of the chest
    cellulitis: spreading hot red skin of the lower leg, fever, tender
    scabies: itching worse at night between the fingers, small burrows, others at home itch
    urticaria: itching wheals that come and go within hours, after a new food
    melanoma: a mole that grows, has uneven colours and bleeds
    conjunctivitis: red sticky eye in the morning, gritty feeling, both eyes after two days
    cataract: cloudy vision for months, glare at night, faded colours
    glaucoma: sudden severe eye pain with halos around lights, red hard eye, vomiting
    retinal detachment: flashes and floaters, then a curtain over one eye, no pain
    tooth abscess: throbbing tooth, swollen cheek, pain on biting, fever
    gum disease: bleeding gums on brushing, bad breath, loose teeth
    malaria: fever with shaking chills every other day, after travel in the tropics
    glandular fever: sore throat for weeks, swollen neck glands, very tired
    Lyme disease: a growing red ring on the skin after a tick bite, aching joints
    chickenpox: itching blisters in crops all over, mild fever, in a child
    sepsis: fever with shaking, fast breathing, confusion, cold mottled skin
    depression: low mood for weeks, no joy in anything, early waking, no appetite
    panic attacks: sudden fear with pounding heart, tingling, feeling of dying, over in minutes
    insomnia: lying awake for hours, tired all day, worry about sleep
    dementia: forgetting names and appointments for a year, lost in familiar streets
    asthma: wheezing and tight chest at night and on exercise, better with an inhaler
    anaphylaxis: swelling lips and hives minutes after nuts, hoarse voice, faint
    burn: blistered painful skin after hot water
    dog bite: torn skin and punctures of the hand after a dog, swelling
    ankle sprain: twisted ankle on the stairs, swollen and blue, hurts to stand on
    wrist fracture: fall on the outstretched hand, bent swollen wrist, cannot grip
    breast cancer: a hard painless lump in the breast, dimpled skin
    stomach cancer: early fullness, weight loss, black stools, pain in the upper belly
    meningitis: fever with a stiff neck, severe headache, light hurts, drowsy
    subarachnoid haemorrhage: sudden worst headache like a blow to the head, stiff neck, vomiting
"""
FINDINGS: dict[str, str] = dict(line.strip().split(": ", 1) for line in _FINDINGS.strip().splitlines())

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
