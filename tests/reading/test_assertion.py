"""What is doubted, denied in the end, known, queried, or told by a parent."""

import pytest

from simdx.reading import FOUND, as_read, read
from simdx.reading.parts import findings_alone, in_brackets, new_clause, one_finding, queried


@pytest.mark.parametrize(
    ("text", "finding", "assertion"),
    [
        # a denial behind its finding
        ("FALL FROM LADDER, LOC DENIED, C-SPINE TENDER", "LOC", "negated"),
        ("FALL FROM LADDER, LOC DENIED, C-SPINE TENDER", "C-SPINE TENDER", "present"),
        ("Hearing loss and vertigo denied, tinnitus present.", "Hearing loss", "negated"),
        ("Pt denied fever, cough present", "fever", "negated"),
        ("red cells none seen, leucocytes 200", "red cells", "negated"),
        ("red cells none seen, leucocytes 200", "leucocytes", "present"),
        ("Haemoptysis has not occurred.", "Haemoptysis", "negated"),
        # a question mark behind it
        ("fell from swing, wrist fracture? swelling to L wrist", "wrist fracture", "possible"),
        ("fell from swing, wrist fracture? swelling to L wrist", "swelling", "present"),
        ("Is this rash serious? It itches.", "rash", "present"),
        ("Dizzy when standing, is that normal?", "Dizzy", "present"),
        ("Which is worse, whisky or beer?", "whisky", "present"),
        ("Sore throat? yes", "Sore throat", "present"),
        # doubt behind it, and over two
        ("hepatitis C antibody indeterminate.", "hepatitis C antibody", "possible"),
        ("Lymphoma favored over reactive nodes.", "Lymphoma", "possible"),
        ("Lymphoma favored over reactive nodes.", "reactive nodes", "possible"),
        ("favours his left arm", "arm", "present"),
        ("We considered vasculitis and sent an ANCA.", "vasculitis", "possible"),
        ("He is considered stable.", "stable", "present"),
        ("Cough, TB culture pending", "TB culture", "possible"),
        ("Malaria is not yet confirmed.", "Malaria", "possible"),
        ("Sepsis is unlikely to be the cause of the confusion.", "Sepsis", "possible"),
        ("Sepsis is unlikely to be the cause of the confusion.", "confusion", "present"),
        ("The lesion is unlikely to be malignant.", "malignant", "possible"),
        ("The lesion is unlikely to be malignant.", "lesion", "present"),
        ("Gout is thought unlikely.", "Gout", "possible"),
        ("please help as soon as possible", "help", "present"),
        # denied in the end
        ("Malignancy was not confirmed at biopsy.", "Malignancy", "negated"),
        ("Torsion was considered but excluded.", "Torsion", "negated"),
        ("Relapse was suspected, but not confirmed on biopsy.", "Relapse", "negated"),
        ("Pneumonia suspected on the film was excluded by CT.", "Pneumonia", "negated"),
        ("Her anaemia is not the cause of the breathlessness.", "anaemia", "negated"),
        ("Her anaemia is not the cause of the breathlessness.", "breathlessness", "present"),
        # what is known or past
        ("Calcified granulomas consistent with prior tuberculosis.", "tuberculosis", "past"),
        ("Mass in keeping with the known meningioma.", "meningioma", "past"),
        ("Consolidation consistent with pneumonia.", "pneumonia", "possible"),
        ("hx t2dm, hypo this am", "t2dm", "present"),
        ("hx breast cancer 2012", "breast cancer", "past"),
        # conditions
        ("Were jaundice to develop, repeat the LFTs.", "jaundice", "hypothetical"),
        ("Should the swelling spread, come back.", "swelling", "hypothetical"),
        ("They were told to rest, still dizzy.", "dizzy", "present"),
        # where a scope ends
        ("r/o fx: dog bite L hand", "fx", "possible"),
        ("r/o fx: dog bite L hand", "dog bite", "present"),
        ("Possible causes: gout, sepsis", "gout", "possible"),
        ("no hx of gout or lupus, swollen knee", "lupus", "negated"),
        ("no hx of gout or lupus, swollen knee", "swollen knee", "present"),
        ("No sign of disease in the brain or any organ (heart, liver).", "liver", "negated"),
        ("There is no evidence for , stones, or , free fluid.", "free fluid", "negated"),
        ("No secondary metastases.", "metastases", "negated"),
        ("No cause found, secondary to diabetes.", "diabetes", "present"),
        # a finding that is an absence
        ("There is no cardiac activity.", "no cardiac activity", "present"),
        ("it's not getting any better", "not getting any better", "present"),
        # a parent tells of a child, or of somebody else
        ("my son has no fever, no cough, just a runny nose", "fever", "negated"),
        ("my son has no fever, no cough, just a runny nose", "runny nose", "present"),
        ("my daughter has a fever but no stiff neck", "fever", "present"),
        ("my son has a temperature of 39 and wont settle", "temperature", "present"),
        ("I'm being sick, my son had the same bug last week", "same bug", "family"),
        ("I have a sore throat. My son has strep.", "strep", "family"),
        ("my son has chickenpox, i feel awful", "chickenpox", "family"),
        ("His daughter has eczema.", "eczema", "family"),
        # a denial behind what a relative has
        ("Father had melanoma, no suspicious naevi on exam.", "melanoma", "family"),
        ("Father had melanoma, no suspicious naevi on exam.", "naevi", "negated"),
        ("Sister has glaucoma, denies visual loss.", "visual loss", "negated"),
        ("Mother has no gout, no lupus.", "lupus", "family"),
        ("Family history of diabetes, no heart disease.", "heart disease", "family"),
        ("No known family history of bowel cancer.", "bowel cancer", "negated"),
        # normal
        ("Abdomen: soft, non-tender, non-distended.", "Abdomen", "normal"),
        ("vision is normal today", "vision", "normal"),
        ("The lump is soft and non-tender.", "lump", "present"),
        ("A soft, non-tender node in the axilla.", "node", "present"),
        ("Abdomen soft, tender RIF.", "tender", "present"),
    ],
)
def test_how_a_finding_is_meant(text: str, finding: str, assertion: str) -> None:
    start = text.index(finding)
    assert read(text).assertion(start, start + len(finding)) == assertion


def test_what_is_denied_behind_its_finding_is_left_out() -> None:
    assert as_read("COUGH 3/7, FEVER DENIED", FOUND)[0].strip(" ,") == "COUGH 3/7"


def test_what_is_queried() -> None:
    assert queried("fell, wrist fracture", 0, 20) == 5
    assert queried("what is it", 0, 10) == 10


def test_text_without_punctuation() -> None:
    assert one_finding("fever headache", 0, 14) == 6
    assert findings_alone("fever chills", 0, 12)
    assert new_clause("chest pain has cough", 0, 20) == 10
    assert in_brackets("a (b, c", 0, 5)
    assert not in_brackets("a (b), c", 0, 7)
