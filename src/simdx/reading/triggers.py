"""Words that say how a finding is meant, as data: triggers, their false friends, and what ends their scope.

The kinds follow NegEx (Chapman et al. 2001, J Biomed Inform 34:301) and ConText (Harkema et al. 2009, J Biomed
Inform 42:839). The phrases were written for this room; they add triage abbreviations and lay language.

A rule is `(kind, first words, rest)`: the rest is a regular expression behind the first word, with a space for
any white space. The first rule that fits a place wins, so the longer and the stranger phrases come first.
"""

from __future__ import annotations

PRESENT, PAST, POSSIBLE, NEGATED, HYPOTHETICAL, FAMILY = range(6)  # where two scopes meet, the larger one holds
ASSERTIONS = ("present", "past", "possible", "negated", "hypothetical", "family")

# What a matched phrase does. A trigger is one of the first three, with an assertion.
BEFORE, BEHIND, EITHER = "before", "behind", "either"  # it stands before, behind, or on either side of findings
NARROW = "narrow"  # as before, but its scope is one finding where no punctuation says more
NOTHING = "nothing"  # a false friend: no trigger, but it ends the scope of another
HERE = "here"  # says that the patient has what follows, now; it ends a section of past or family history too
END, AND, OR, WITH = "end", "and", "or", "with"
COMMA, COLON, STOP = "comma", "colon", "stop"

Kind = tuple[str, int]

_NOTS = (
    "not never cannot cant can't couldn't couldnt don't dont doesn't doesnt didn't didnt isn't isnt aren't arent "
    "wasn't wasnt weren't werent hasn't hasnt haven't havent hadn't hadnt won't wont wouldn't wouldnt"
)
_RELATIVES = (
    "mother father mom mum dad mothers fathers parents parent sister brother sisters brothers sibling siblings "
    "twin grandmother grandfather grandparents grandma grandpa aunt uncle cousin cousins nephew niece husband "
    "wife spouse partner boyfriend girlfriend son daughter sons daughters kids roommate flatmate coworker "
    "colleague neighbour neighbor relative relatives classmate friend"
)
_RELATIVE = "(?:" + "|".join(_RELATIVES.split()) + ")"
_SAYS = (
    "(?:says?|said|reports?|reported|states?|stated|noticed|notices|notes|noted|thinks?|thought|describes?|"
    "described|brought|gives?|gave|believes?|told|tells|feels that|felt that|complains? that|worried|is worried|"
    "is concerned|concerned|called|found (?:him|her|me|the)|observed|witnessed|saw|wants?|asked|denies|drove)"
)
_UNIT = "(?:minute|hour|hr|day|night|week|wk|month|mo|year|yr)s?"
_QUALITY = (
    "(?: (?:significant|significantly|interval|appreciable|real|much|major|substantial|further|noticeable|"
    "measurable|obvious|relevant|longer term|sustained|any|definite|the))*"
)
_SEEN = (
    "(?:seen|identified|found|detected|observed|noted|present|appreciated|visuali[sz]ed|demonstrated|evident|"
    "palpable|apparent|reported|felt|heard|elicited|visible|shown|recognised|recognized)"
)
_BE = "(?:is|are|was|were|has been|have been|had been|be|being|been)"
_HAPPENS = (
    r"(?:occur|recur|happen|develop|appear|worsen|arise|return|start|persist|increase|come back|get worse)\w*"
)

RULES: tuple[tuple[Kind, str, str], ...] = (
    # ----- false friends: an absence that is itself a finding, or a negation of something else
    ((NOTHING, 0), "no", rf"{_QUALITY} (?:change|changes|increase|decrease|improvement|relief|response|progress)\b"
     r"(?: (?:in|of|to|from|with))?"),
    ((NOTHING, 0), "no", " (?:appetite|energy|strength|desire|interest|motivation|power|sleep|sensation|pulses?|hair|"
     "bowel movements?|bowel sounds|urine output|urine|breath sounds|libido|taste|smell|feeling in|doubt|wonder|"
     "matter|choice|idea|reason|better|hope|pleasure|balance|control|memory|recollection|voice|period|periods|"
     "menses|movement|fetal movement|response|heartbeat|stamina|concentration|enjoyment|place to|money|access|"
     r"difficulty (?:seeing|finding|identifying))\b"),
    ((NOTHING, 0), "no", " longer (?:able|can|works?|working|respon\\w+|tolerat\\w+|walks?|speaks?|eats?|drinks?|"
     "enjoys?|interested|recogni[sz]es|controlled|responds)"),
    ((NOTHING, 0), "without", rf"{_QUALITY} (?:change|increase|decrease|improvement|relief|response|doubt|success|"
     "effect|help|assistance)"),
    ((NOTHING, 0), "gram rh test her2 rhesus hla-b27", "[ -]negative"),
    ((NOTHING, 0), "absent", " (?:reflex|pulse|breath|bowel|period|menses)"),
    ((BEHIND, POSSIBLE), _NOTS, r" (?:yet )?(?:be(?:en)? )?(?:ruled out|excluded)"),
    ((BEHIND, POSSIBLE), "can could has have", r" not (?:yet )?(?:be(?:en)? )?(?:ruled out|excluded)"),
    ((BEFORE, POSSIBLE), "cannot can't cant couldn't", " (?:rule out|exclude)"),
    ((BEFORE, POSSIBLE), "can could", " not (?:rule out|exclude)"),
    ((BEFORE, POSSIBLE), "not am is", "(?: not)? (?:certain|sure|clear|known)(?: (?:if|whether|that))?"),
    ((BEFORE, NEGATED), "cannot can't cant couldn't couldnt", " (?:see|find|feel|detect) any"),
    ((BEFORE, NEGATED), "can could", " not (?:see|find|feel|detect) any"),
    ((BEHIND, NEGATED), "cannot could can", " (?:not )?be (?:found|seen|identified|detected|felt|palpated)"),
    ((BEFORE, NEGATED), _NOTS, rf" (?:come with|associated with|accompanied by|have|had|show|reveal|demonstrate)"
     "(?: (?:any|evidence of|signs? of))*"),
    ((BEHIND, NEGATED), "not", rf" {_SEEN}"),
    ((BEHIND, NEGATED), "is are was were has have", rf"(?: been)? not(?: been)? {_SEEN}"),
    ((BEHIND, NEGATED), "isn't isnt aren't wasn't wasnt weren't", rf" {_SEEN}"),
    ((NOTHING, 0), "not", " (?:only|just|simply|merely)"),
    ((NOTHING, 0), _NOTS, rf"(?: (?:be|been|being|yet|fully|really|at all|very|so|completely|significantly|"
     r"substantially|always|even|get|getting|gets|got|go|going|able to|easily|properly))*"
     r" (?:improv\w*|better|worse|reliev\w*|respon\w*|heal\w*|gone|away|down|back|resolv\w*|controlled|chang\w*|"
     r"sleep\w*|eat\w*|drink\w*|breath\w*|drain\w*|passed|pass|urinat\w*|well|right|work\w*|help\w*|stop\w*|want|"
     r"like|know|understand|yet|under|able|alert|orient\w*|walk\w*|mov\w*|talk\w*|speak|tolerat\w*|swallow\w*|"
     r"clos\w*|open|bend|stand|lift|rais\w*|concentrat\w*|focus|function|remember|think|enjoy|keep|last|settl\w*|"
     r"subsid\w*|fad\w*|leav\w*|disappear\w*|clear\w*|stretch|straighten|see|hear|taste|smell|feel (?:well|right|good|like|myself|my|anything|okay|ok|safe|hungry)|take|taken|"
     r"tried|try|been to|believe|due|sit|hold|digest|grow|grown|let|make|seem|afford|care|recover\w*|normal|"
     r"good|great|expect\w*|mind|stay|wait|follow\w*|compliant|bear|relax|rest|put|turn|use|reach|touch|"
     r"sit still|wake|cope|do|tell|recall|reduc\w*|soluble|limited)\b"),
    ((NOTHING, 0), "cannot can't cant couldn't couldnt won't wont wouldn't wouldnt", ""),  # inability is a finding
    ((NOTHING, 0), "can could will would", " (?:not|hardly|barely)"),
    ((NOTHING, 0), "unable inability hardly barely", "(?: to)?"),
    ((NOTHING, 0), "lacks lack lacking", " (?:of )?(?:motivation|energy|appetite|sleep|interest|concentration|"
     "strength|sensation|coordination|confidence)"),
    # ----- question and answer of checklists: see the punctuation of the scanner
    # ----- present
    ((HERE, 0), "complains complaining complaint complained", " (?:of|about|that)"),
    ((HERE, 0), "c/o presents presenting presented", "(?: (?:with|to|for|because))?"),
    ((HERE, 0), "positive pos", " for"),
    ((HERE, 0), "pos endorses endorsing admits reports reporting suffers", "(?: (?:from|to))?"),
    ((HERE, 0), "now today currently nowadays", ""),
    ((HERE, 0), "this", " (?:morning|afternoon|evening|week|time|visit)"),
    ((HERE, 0), "history", " of (?:the )?present(?:ing)?(?: illness| complaint)?"),
    ((HERE, 0), "short brief long", " history of"),
    ((HERE, 0), "day days week weeks month months year years hour hours d wk yr", r"(?:'s|s')?[ -]history of"),
    # ----- hypothetical
    ((NOTHING, 0), "as even", " (?:if|though)"),
    ((BEFORE, POSSIBLE), "unclear uncertain unsure unknown wonder wondering wonders asks query",
     "(?: (?:if|whether|about))?"),
    ((NOTHING, 0), "if", " (?:i|possible|you (?:press|touch)|needed|not|so)"),
    ((NOTHING, 0), "should", " (?:i|we|not)"),
    ((BEHIND, POSSIBLE), "should must", " be (?:considered|excluded|suspected|ruled out)"),
    ((BEFORE, HYPOTHETICAL), "should", rf"(?=[^.;\n]{{1,60}}\b{_HAPPENS})"),
    ((BEFORE, HYPOTHETICAL), "what", " (?:happens |would happen )?if"),
    ((BEFORE, HYPOTHETICAL), "if unless", "(?: (?:there (?:is|are)|you|he|she|they|the patient))?"
     "(?: (?:develops?|notices?|gets?|experiences?|has|have|see))?"),
    ((BEFORE, HYPOTHETICAL), "come comes go goes", " (?:back|to (?:the )?(?:ed|er|emergency|hospital))(?: (?:room|department|"
     "immediately|sooner|to|the|clinic|ed|er))* (?:for|with|if|should|in case of|when)(?: any)?(?: there is)?"),
    ((BEFORE, HYPOTHETICAL), "return returns call seek contact", "(?: (?:back|us|care|the|to|a|your|"
     r"ed|er|emergency|department|room|hospital|clinic|doctor|gp|office|immediately|sooner|earlier|help|medical|"
     "attention|urgently|in))* (?:for|with|if|should|in case of|when)(?: any)?(?: there is)?"),
    ((BEFORE, HYPOTHETICAL), "return warning safety", " (?:precautions|signs|netting)(?: such as)?"),
    ((BEFORE, HYPOTHETICAL), "watch watching monitor monitored monitoring observe look", " (?:out )?for"),
    ((BEFORE, HYPOTHETICAL), "in", " (?:the )?(?:case|event) of"),
    ((BEFORE, HYPOTHETICAL), "as if prn", "(?: (?:needed|required|necessary))? for"),
    ((BEHIND, HYPOTHETICAL), "as if when", " (?:needed|required|necessary)"),
    ((BEHIND, HYPOTHETICAL), "prn", ""),
    ((BEHIND, HYPOTHETICAL), "would", " be (?:a|another|the) (?:reason|sign|cause|ground|indication)"),
    ((NOTHING, 0), "risk", " factors?"),
    ((BEFORE, HYPOTHETICAL), "risk risks prevention prophylaxis danger", " (?:for|of|against)"),
    ((BEFORE, HYPOTHETICAL), "prevent prevents preventing avoid avoiding fears fearing afraid", "(?: (?:of|that))?"
     "(?: (?:getting|having))?"),
    ((BEFORE, HYPOTHETICAL), "screening screen screened tested vaccinated immunised immunized vaccine vaccination",
     " (?:for|against)"),
    ((BEFORE, HYPOTHETICAL), "worries worried worry fear", r" (?:about (?:getting|developing)|that (?:i|he|she|it|they)"
     r" (?:will|might|could|would)(?: (?:get|develop|have))?)"),
    ((BEFORE, HYPOTHETICAL), "side adverse", " effects?(?: (?:may|can|could))?(?: (?:include|includes|are|such as))?"),
    ((BEFORE, HYPOTHETICAL), "warns warned warn", " (?:of|about)"),
    # ----- family and others
    ((NOTHING, 0), "by", rf" (?:(?:his|her|my|the|their|a) )?{_RELATIVE}"),
    ((NOTHING, 0), "according", rf" to (?:(?:his|her|my|the|their) )?{_RELATIVE}"),
    ((NOTHING, 0), "with", rf" (?:his|her|my|the|their) {_RELATIVE}\b(?! (?:who|with|has|had))"),
    ((NOTHING, 0), _RELATIVES, rf" {_SAYS}"),
    ((NOTHING, 0), "mother father", " of (?:one|two|three|four|five|\\d)"),
    ((BEFORE, FAMILY), "no denies negative", " (?:known |significant |relevant |any )?(?:family (?:history|hx)|fhx?)\\b"
     "(?: (?:of|for))?"),
    ((BEFORE, FAMILY), "family familial", r" (?:medical )?(?:history|hx|h/o)(?: (?:is|was|includes?|significant|"
     "remarkable|notable|positive|negative|for|of))*"),
    ((BEFORE, FAMILY), "fh fhx famhx", "(?: of)?"),
    ((BEFORE, FAMILY), "everyone everybody someone people others many most all", " in (?:the|my|his|her|their|our) family"),
    ((BEHIND, FAMILY), "runs run", " in (?:the|my|his|her|their|our) family"),
    ((BEHIND, FAMILY), "in", rf" (?:the|an?|his|her|my|their|maternal|paternal) {_RELATIVE}"),
    ((EITHER, FAMILY), "in", " (?:the|my|his|her|their|our) (?:immediate |extended )?family"),
    ((BEFORE, FAMILY), "family", " members?"),
    ((BEFORE, FAMILY), "maternal paternal hereditary", "(?: (?:history|hx)(?: of)?)?"),
    ((BEFORE, FAMILY), _RELATIVES, r"(?:'s)?(?: (?:also|both|all))?(?: (?:has|have|had|with|died (?:of|from)|suffer\w*"
     "(?: from)?|was|were|is))?"),
    # ----- possible
    ((BEHIND, POSSIBLE), "is are was were remains remain", " (?:also |still |very |quite |most |highly |a |felt to be |"
     "thought to be |strongly )*(?:suspected|possible|likely|probable|unlikely|possibility|concern|consideration|"
     "questioned|questionable|considered|suspicious|presumed)(?! (?:for|of|that))"),
    ((BEFORE, POSSIBLE), "possible possibly poss probable probably likely unlikely suspected suspect suspicious "
     "suspicion presumed presumably presumptive perhaps maybe questionable query equivocal concerning worrisome "
     "suggestive suggests suggesting susp",
     "(?: (?:for|of|that|to be))*"),
    ((BEFORE, POSSIBLE), "concern concerns worry", "(?: (?:for|of|about))"),
    ((BEFORE, POSSIBLE), "may might could", " (?:well )?(?:be|have|represent|reflect|indicate|suggest|mean)"
     "(?: (?:due to|been))?"),
    ((BEFORE, POSSIBLE), "appears appear seems seem", " to (?:be|have|represent|show)"),
    ((BEFORE, POSSIBLE), "consistent compatible", " with"),
    ((BEFORE, POSSIBLE), "question possibility low high", " (?:suspicion |probability |likelihood )?(?:of|for)"),
    ((BEFORE, POSSIBLE), "differential", "(?: diagnos[ie]s)?(?: (?:include[sd]?|is|are|of))?"),
    ((BEFORE, POSSIBLE), "working provisional tentative", " diagnosis"),
    ((BEFORE, POSSIBLE), "rule ruling r/o", "(?: out)?"),
    ((BEFORE, POSSIBLE), "evaluate evaluation eval assess work-up workup check investigate", " (?:for|of)"),
    ((EITHER, POSSIBLE), "vs versus", r"\.?"),
    # ----- past
    ((NOTHING, 0), "prior previous", " (?:to|visits?|films?|study|studies|exam\\w*|ct|mri|radiograph|x-?ray)"),
    ((NOTHING, 0), "previously", " (?:healthy|well|fit)"),
    ((NOTHING, 0), "year years yr yrs month months day days week weeks y", "[ -/]?o(?:ld)?\\b"),
    ((BEFORE, NEGATED), "no denies denied without negative", "(?: (?:any|known|prior|previous|past|significant|"
     "relevant|personal|medical|for|a))* (?:history|hx|h/o)(?: (?:of|for))?"),
    ((BEFORE, PAST), "past previous prior remote medical surgical known childhood personal significant longstanding",
     " (?:medical |surgical |and |psychiatric )*(?:history|hx)(?: (?:is|was|includes?|significant|remarkable|notable|"
     "positive|for|of))*"),
    ((BEFORE, PAST), "history hx", "(?: (?:is|was|significant|remarkable|positive|includes?))*(?: (?:of|for))?"),
    ((BEFORE, PAST), "h/o s/p pmh pmhx psh pshx", "(?: of)?"),
    ((BEFORE, PAST), "status", " post"),
    ((BEFORE, PAST), "previous previously prior former formerly ex childhood",
     r"(?: (?:episodes?|diagnosed|treated|known))*(?: (?:of|with|for))?"),
    ((BEFORE, PAST), "used", " to (?:have|get|be|suffer)"),
    ((BEFORE, PAST), "recovered recovering", " from"),
    ((BEFORE, PAST), "old healed", r"(?= (?:\w+ )?(?:infarct|fracture|burn|scar|injur|stroke|granulom|mi\b|rib|tear|cva))"),
    ((BEHIND, PAST), "has have had", r" (?:now |since |completely |fully |all )*(?:resolved|subsided|healed|cleared|"
     "disappeared|settled|gone)"),
    ((BEHIND, PAST), "is are", " (?:now |all )*(?:gone|resolved)"),
    ((BEHIND, PAST), "resolved went cleared", "(?: (?:away|up))?"),
    ((EITHER, PAST), "in", r" (?:the past|childhood|infancy|(?:19|20)\d\d|his youth|her youth)\b"),
    ((EITHER, PAST), "as", " an? (?:child|newborn|baby|teenager|kid|infant|boy|girl)"),
    ((EITHER, PAST), "when", " (?:i|he|she) was (?:young|younger|little|small|an? \\w+|\\d+)"),
    ((BEHIND, PAST), "at", r" (?:the )?age (?:of )?\d+"),
    ((EITHER, PAST), "years months decades", " (?:ago|back|earlier)"),
    ((EITHER, PAST), "last", " (?:week|month|year|summer|winter|spring|autumn)"),
    # ----- negated
    ((BEFORE, NEGATED), "denies denied denying deny denial", "(?: (?:any|having|of|current|recent))*"),
    ((BEHIND, NEGATED), "is are was were been be", r" (?:also |all |explicitly )?(?:denied|absent|ruled out|excluded|"
     r"negative|unremarkable for)\b(?! for)"),
    ((BEHIND, NEGATED), "has have", " been (?:ruled out|excluded|denied)"),
    ((BEHIND, NEGATED), "all", " (?:absent|denied|negative)"),
    ((BEHIND, NEGATED), "ruled", " out"),
    ((BEFORE, NEGATED), "negative neg", " for"),
    ((BEFORE, NEGATED), "no", r" (?:signs?|evidence|symptoms?|features|indications?|suggestion|complaints?|sign|"
     "(?:acute|clinical|radiographic|definite|convincing|clear) (?:evidence|signs?)) (?:of|for|suggestive of)(?: any)?"),
    ((BEFORE, NEGATED), "no", " (?:longer|one)(?: (?:found|has|saw|noted))?(?: any)?"),
    ((NARROW, NEGATED), "no neg", "(?: (?:known|new|acute|significant|obvious|recent|active|further|other|visible|"
     "associated|current|evident|apparent))*"),
    ((BEFORE, NEGATED), "nothing", " to (?:suggest|indicate)"),
    ((BEFORE, NEGATED), "free clear", " (?:of|from)"),
    ((BEFORE, NEGATED), "absence", " of"),
    ((BEFORE, NEGATED), "none", " (?:of(?: the)?|for)"),
    ((BEFORE, NEGATED), "fails failed", " to (?:reveal|show|demonstrate|identify)(?: any)?"),
    ((BEFORE, NEGATED), "without w/o", "(?: (?:any|evidence of|signs? of))*"),
    ((BEFORE, NEGATED), "neither nor lacks lacking", "(?: (?:any|has there been any|has she had|has he had))?"),
    ((BEFORE, NEGATED), _NOTS, "(?: (?:have|had|has|been|noticed|any|a|feel|felt|experienced|experiencing|show|"
     "having|report|reported|complain of|see|seen|got|get|noted|develop\\w*))*"),
    # ----- what ends a scope, and what joins a list
    ((END, 0), "but however although though except yet still which because since so apart aside besides just only "
     "always where whereas while otherwise instead until then after despite found states stated pt patient says "
     "said following due secondary causing persists remains continues i", ""),
    ((END, 0), "other rather", " than"),
    ((AND, 0), "and plus &", ""),
    ((OR, 0), "or", ""),
    ((WITH, 0), "with w/ who that", ""),
)  # fmt: skip

# After a comma or an "and", these open another clause.
STARTERS = frozenset(
    "he she it i we they you the my his her their our your this that these there is are was were has have had feels "
    "feel felt reports complains presents does did do go give take now also some came comes still being "
    "can could will would am pt patient".split()
)
CLAUSE_VERBS = frozenset(
    "is are was were has have had feels feel hurts hurt aches ache persists remains continues started began "
    "developed worsened complains reports".split()
)

# One-word findings: where nothing is punctuated, "no fever headache" denies the first alone.
FINDINGS = frozenset(
    "fever fevers chills cough rash nausea vomiting diarrhea diarrhoea constipation headache dizziness syncope "
    "pain pains ache aches tenderness swelling edema oedema redness erythema warmth numbness tingling weakness "
    "bleeding blood discharge itching loc sob dyspnea dyspnoea cp si hi trauma injury injuries deformity distress "
    "murmur wheeze wheezing stridor drooling palpitations diaphoresis sweats seizure seizures fx fracture "
    "fractures laceration lacerations dislocation stiffness photophobia incontinence clots cramping cramps "
    "dysuria hematuria haematuria hemoptysis haemoptysis allergies effusion pneumothorax consolidation n/v n/v/d "
    "jaundice fatigue congestion sneezing wheezes rales rhonchi lymphadenopathy masses mass lesions ulcers "
    "bruising hematoma haematoma burns foreign hallucinations covid infiltrate opacity nodules nodule "
    "cyanosis clubbing vertigo confusion".split()
)
FINDING_ENDINGS = (
    "itis", "emia", "aemia", "oma", "osis", "algia", "pathy", "uria", "rrhea", "rrhoea", "plegia", "paresis",
    "thorax", "ectomy", "megaly", "dynia", "phagia", "pnea", "pnoea",
)  # fmt: skip
TAILS = frozenset("in of on at to from over during or and / with when".split())

# Header -> (section, assertion of what stands in it).
SECTIONS: dict[str, tuple[str, int]] = {
    **dict.fromkeys(
        ("past medical history", "medical history", "pmh", "pmhx", "past history", "past surgical history",
         "surgical history", "psh", "pshx", "history of past illness", "past psychiatric history", "past hx"),
        ("past history", PAST),
    ),
    **dict.fromkeys(("family history", "fh", "fhx", "family hx", "family medical history"), ("family", FAMILY)),
    **dict.fromkeys(("history of present illness", "hpi", "history", "present illness", "history of presenting complaint",
                     "subjective", "interval history"), ("history", PRESENT)),
    **dict.fromkeys(("chief complaint", "cc", "presenting complaint", "reason for visit", "complaint"),
                    ("complaint", PRESENT)),
    **dict.fromkeys(("ros", "review of systems"), ("review of systems", PRESENT)),
    **dict.fromkeys(("social history", "sh", "shx", "social hx"), ("social", PRESENT)),
    **dict.fromkeys(("exam", "examination", "physical exam", "physical examination", "pe", "objective", "o/e"),
                    ("examination", PRESENT)),
    **dict.fromkeys(("findings", "results", "labs", "imaging"), ("findings", PRESENT)),
    **dict.fromkeys(("impression", "assessment", "diagnosis", "dx", "conclusion", "a/p", "assessment and plan"),
                    ("impression", PRESENT)),
    **dict.fromkeys(("indication", "indications", "reason for exam", "clinical information"), ("indication", PRESENT)),
    **dict.fromkeys(("plan", "recommendation", "recommendations", "instructions", "disposition"), ("plan", PRESENT)),
    **dict.fromkeys(("return precautions", "warning signs", "safety netting"), ("plan", HYPOTHETICAL)),
    **dict.fromkeys(("medications", "meds", "allergies", "comparison", "technique", "procedure", "vitals"),
                    ("other", PRESENT)),
}  # fmt: skip
