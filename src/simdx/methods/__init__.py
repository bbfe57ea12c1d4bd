"""From panel and bank to answers: the shipped recipe, M-SMC and D-SMC, each of the one shape in `fitted`.

The recipe is read in five files: `features` (rows of text), `scores` (regression and kernel), `outside`
(none of these), `calibration` (rehearsed, labelled) and `recipe` (the formula). `real_cases` adds a user's
own cases, `speed` is there for speed alone.
"""

from simdx.methods.fitted import AnswerTable, Fitted, Settings
from simdx.methods.panel_data import RECIPE_VERSION, Observations, PanelData
